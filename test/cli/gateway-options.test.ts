import { describe, expect, it } from 'vitest';
import { parseOptions } from '../../shared/cli/parse-options.ts';
import { pingFromOptions } from '../../shared/cli/ping-from-options.ts';
import { tunnelsFromOptions } from '../../shared/cli/tunnels-from-options.ts';
import { DEFAULT_PING_SETTINGS } from '../../shared/domain/ping-settings.ts';

function gateway(...args: readonly string[]) {
  const identity = ['--namespace=a', '--name=g', '--mode=client', '--remote-cluster-id=b'];
  return parseOptions('gateway', [...identity, ...args], {}).options;
}

const loopback = (index: number, local = `127.0.9.${2 * index + 1}`) =>
  `--tunnel=liqo-tunnel${index || ''}=${local},127.0.9.${2 * index + 2}`;

describe('tunnelsFromOptions', () => {
  it('derives as many tunnels as there are interfaces, the client at the second address of each /30', () => {
    expect(tunnelsFromOptions(gateway('--num-interfaces=2', '--ping-port=4000'))).toEqual([
      {
        interfaceId: 'liqo-tunnel',
        local: { address: '169.254.18.2', port: 4000 },
        peer: { address: '169.254.18.1', port: 4000 },
      },
      {
        interfaceId: 'liqo-tunnel1',
        local: { address: '169.254.18.6', port: 4000 },
        peer: { address: '169.254.18.5', port: 4000 },
      },
    ]);
  });

  it('takes the given ones instead, whatever their names', () => {
    const tunnels = tunnelsFromOptions(gateway(loopback(0), '--tunnel=wg0.1=10.0.0.1,10.0.0.2'));
    expect(tunnels.map(({ interfaceId, local }) => [interfaceId, local.address])).toEqual([
      ['liqo-tunnel', '127.0.9.1'],
      ['wg0.1', '10.0.0.1'],
    ]);
  });

  it.each([
    [['--num-interfaces=4', loopback(0), loopback(1)], '--num-interfaces 4: 2 --tunnel are given'],
    [[loopback(0), loopback(0, '127.0.9.9')], '--tunnel: the interface liqo-tunnel is given twice'],
    [[loopback(0), loopback(1, '127.0.9.1')], '--tunnel: the local address 127.0.9.1 is given twice'],
    [Array.from({ length: 65 }, (_, index) => loopback(index)), '--tunnel: 65 are given, want at most 64'],
  ])('refuses what contradicts itself: %j', (args, message) => {
    expect(() => tunnelsFromOptions(gateway(...args))).toThrow(message);
  });
});

describe('pingFromOptions', () => {
  it('gives the settings of the specification without flags', () => {
    expect(pingFromOptions(gateway())).toEqual(DEFAULT_PING_SETTINGS);
  });

  it('refuses to probe a suspect tunnel no faster than the others', () => {
    expect(() => pingFromOptions(gateway('--ping-interval=1s', '--ping-suspect-interval=1s'))).toThrow(
      '--ping-suspect-interval 1000ms: want less than --ping-interval, which is 1000ms',
    );
  });
});
