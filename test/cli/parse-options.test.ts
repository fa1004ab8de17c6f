import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { COMMANDS, type CommandName, optionKeys } from '../../shared/cli/command-table.ts';
import { UsageError } from '../../shared/cli/errors.ts';
import { environmentVariableOf, OPTIONS, optionOf } from '../../shared/cli/options.ts';
import { parseOptions } from '../../shared/cli/parse-options.ts';
import { STREAMS } from '../../shared/domain/topology.ts';

const IDENTITY = ['--namespace=liqo-tenant-a', '--name=gw', '--mode=server', '--remote-cluster-id=b'];

function gateway(args: readonly string[], environment: NodeJS.ProcessEnv = {}) {
  return parseOptions('gateway', [...IDENTITY, ...args], environment).options;
}

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as Error).message;
  }
  throw new Error('it was accepted');
}

describe('parseOptions', () => {
  it('has the defaults of the specification', () => {
    expect(gateway([])).toEqual({
      namespace: 'liqo-tenant-a',
      name: 'gw',
      mode: 'server',
      remoteClusterId: 'b',
      gatewayUid: undefined,
      numInterfaces: 1,
      tunnels: undefined,
      pingEnabled: true,
      pingPort: 12345,
      pingIntervalMs: 2_000,
      pingLossThreshold: 5,
      pingUpdateStatusIntervalMs: 10_000,
      pingBufferSizeBytes: 1_024,
      pingSuspectIntervalMs: undefined,
      natsServers: ['nats://127.0.0.1:4222'],
      natsCredentialsFile: undefined,
      metricsBindAddress: { port: 8089 },
      logLevel: 'info',
    });
    expect(parseOptions('function', ['all'], {}).options.gatewaySilentAfterMs).toBe(30_000);
  });

  it('takes no --gateway-silent-after that its timer would not outlive', () => {
    const maxAgeMs = STREAMS.find(({ name }) => name === 'TIMERS')?.maxAgeMs ?? 0;
    const parse = (value: string) => parseOptions('function', ['all', `--gateway-silent-after=${value}`], {}).options;
    const longestMs = parse('30m').gatewaySilentAfterMs;
    expect(longestMs).toBeLessThanOrEqual(maxAgeMs / 2);
    for (const tooLong of ['30m1s', `${maxAgeMs}ms`, '24h']) {
      expect(refusal(() => parse(tooLong))).toMatch(/gateway-silent-after.*: want a duration .* to 30m0s/);
    }
  });

  it('lets the environment win over defaults, and flags over the environment', () => {
    const environment = { WG_KEEPALIVE_PING_INTERVAL: '50ms', WG_KEEPALIVE_PING_LOSS_THRESHOLD: '3' };
    const options = gateway(['--ping-interval', '1m30s'], environment);
    expect(options.pingIntervalMs).toBe(90_000);
    expect(options.pingLossThreshold).toBe(3);
  });

  it('takes an empty variable for an absent one', () => {
    expect(gateway([], { WG_KEEPALIVE_PING_INTERVAL: '' }).pingIntervalMs).toBe(2_000);
  });

  it('sets booleans with and without a value', () => {
    expect(gateway(['--ping-enabled=false']).pingEnabled).toBe(false);
    expect(gateway(['--ping-enabled=true']).pingEnabled).toBe(true);
    expect(parseOptions('lab', ['--json'], {}).options.json).toBe(true);
  });

  it('collects a repeated --tunnel, and the same from its variable', () => {
    const tunnels = [
      { interfaceId: 'liqo-tunnel', local: '127.0.1.1', peer: '127.0.1.2' },
      { interfaceId: 'eth0.100', local: '127.0.1.5', peer: '127.0.1.6' },
    ];
    const words = ['liqo-tunnel=127.0.1.1,127.0.1.2', 'eth0.100=127.0.1.5,127.0.1.6'];
    expect(gateway(words.flatMap((word) => ['--tunnel', word])).tunnels).toEqual(tunnels);
    expect(gateway([], { WG_KEEPALIVE_TUNNEL: words.join(' ') }).tunnels).toEqual(tunnels);
  });

  it('refuses a cluster that no label can name', () => {
    expect(() => gateway(['--remote-cluster-id=a b/c'])).toThrow(
      '--remote-cluster-id "a b/c": want a Kubernetes label value',
    );
    expect(gateway(['--remote-cluster-id=Rome_1.a']).remoteClusterId).toBe('Rome_1.a');
  });

  it('reads bind addresses with and without a host', () => {
    expect(gateway(['--metrics-bind-address', '[::1]:0']).metricsBindAddress).toEqual({ host: '::1', port: 0 });
    expect(gateway(['--metrics-bind-address', '127.0.0.1:9']).metricsBindAddress).toEqual({
      host: '127.0.0.1',
      port: 9,
    });
  });

  it('hands on the operands of a command that has some', () => {
    expect(parseOptions('function', ['tunnel-status', '--log-level=warn', 'connection-watch'], {}).operands).toEqual([
      'tunnel-status',
      'connection-watch',
    ]);
  });

  it.each([
    [['--ping-interval', '2'], '--ping-interval "2": want a duration such as 50ms, 2s or 1m30s, from 1ms to 1h0m0s'],
    [['--ping-interval=0s'], '--ping-interval "0s"'],
    [['--ping-interval=-2s'], '--ping-interval "-2s"'],
    [['--ping-interval=2h'], '--ping-interval "2h"'],
    [['--ping-loss-threshold=0'], '--ping-loss-threshold "0": want an integer from 1 to 100'],
    [['--ping-loss-threshold=5.5'], '--ping-loss-threshold "5.5"'],
    [['--ping-enabled=yes'], '--ping-enabled "yes": want true or false'],
    [['--ping-port=65536'], '--ping-port "65536": want an integer from 1 to 65535'],
    [['--num-interfaces=65'], '--num-interfaces "65": want an integer from 1 to 64'],
    [['--namespace=Liqo_A'], '--namespace "Liqo_A": want a Kubernetes name'],
    [['--mode=both'], '--mode "both": want one of server, client'],
    [['--tunnel=liqo-tunnel=10.0.0.1'], '--tunnel "liqo-tunnel=10.0.0.1": want IFACE=LOCAL,PEER'],
    [['--tunnel=a=10.0.0.1,10.0.0.1'], '--tunnel "a=10.0.0.1,10.0.0.1"'],
    [['--tunnel=a=10.0.0.1,10.0.0.256'], '--tunnel "a=10.0.0.1,10.0.0.256"'],
    ...['t/../x', '.', '..', 'sixteen-letters-', 'wg0:1', 'wg\u00e9', 'wg\u00070'].map((name): [string[], string] => [
      [`--tunnel=${name}=10.0.0.1,10.0.0.2`],
      `--tunnel ${JSON.stringify(`${name}=10.0.0.1,10.0.0.2`)}: want IFACE=LOCAL,PEER with the name of a Linux interface`,
    ]),
    [['--nats-url=http://nats:4222'], '--nats-url "http://nats:4222": want nats://HOST[:PORT]'],
    [['--metrics-bind-address=8089'], '--metrics-bind-address "8089": want HOST:PORT'],
    [['--metrics-bind-address=:65536'], '--metrics-bind-address ":65536"'],
    [['--ping-interval'], '--ping-interval: a value is missing'],
    [['--ping-interval', '--json'], '--ping-interval: a value is missing before --json'],
    [['--ping-intervall=2s'], '--ping-intervall: gateway has no such flag; see wg-keepalive gateway --help'],
    [['--duration=2s'], '--duration: gateway has no such flag (an option of lab)'],
    [['-p', '2s'], '-p: gateway has no such flag'],
    [['false'], '"false": gateway takes flags only'],
  ])('refuses %j and says why', (args, message) => {
    expect(refusal(() => gateway(args))).toContain(message);
  });

  it.each([
    ['16777216', 2 ** 24],
    ['16Mi', 2 ** 24],
    ['16384Ki', 2 ** 24],
    ['240Gi', 240 * 2 ** 30],
    ['1024Ti', 2 ** 50],
  ])('reads %s as bytes', (text, bytes) => {
    expect(parseOptions('setup', ['--observations-max-bytes', text], {}).options.observationsMaxBytes).toBe(bytes);
  });

  it.each([
    [
      '--observations-max-bytes=15Mi',
      'want a number of bytes such as 512Mi or 2Gi (Ki, Mi, Gi, Ti), from 16Mi to 1024Ti',
    ],
    ['--observations-max-bytes=2GB', 'want a number of bytes'],
    ['--observations-max-bytes=1.5Gi', 'want a number of bytes'],
    ['--decisions-max-bytes=1025Ti', 'want a number of bytes'],
    ['--history-max-age=4m', 'want a duration such as 50ms, 2s or 1m30s, from 5m0s to 8760h0m0s'],
    ['--history-max-age=3d', 'want a duration'],
  ])('refuses setup %s', (arg, message) => {
    const [flag, value] = arg.split('=');
    expect(refusal(() => parseOptions('setup', [arg], {}))).toContain(`${flag} "${value}": ${message}`);
  });

  it('names the variable where that is where the value comes from', () => {
    expect(refusal(() => gateway([], { WG_KEEPALIVE_PING_PORT: 'tcp' }))).toContain(
      'WG_KEEPALIVE_PING_PORT "tcp": want',
    );
  });

  it('refuses a variable that no option has, but not the service links of Kubernetes', () => {
    expect(refusal(() => gateway([], { WG_KEEPALIVE_PING_INTERVALL: '2s' }))).toContain('WG_KEEPALIVE_PING_INTERVALL');
    const links = {
      WG_KEEPALIVE_SERVICE_HOST: '10.0.0.1',
      WG_KEEPALIVE_UI_SERVICE_PORT_HTTP: '80',
      WG_KEEPALIVE_PORT: 'tcp://10.0.0.1:80',
      WG_KEEPALIVE_PORT_80_TCP_ADDR: '10.0.0.1',
    };
    expect(gateway([], links).pingIntervalMs).toBe(2_000);
  });

  it('names every required flag that is missing', () => {
    expect(refusal(() => parseOptions('gateway', ['--name=gw'], {}))).toContain(
      '--namespace, --mode, --remote-cluster-id: required',
    );
  });

  it('never repeats a password that somebody put in the NATS URL', () => {
    expect(refusal(() => gateway(['--nats-url=nats://me:s3cret@nats:4222']))).not.toContain('s3cret');
  });

  it('throws nothing but UsageError, whatever the arguments', () => {
    const names = Object.keys(COMMANDS) as CommandName[];
    const word = fc.oneof(fc.string(), fc.constantFrom(...optionKeys.map((key) => `--${OPTIONS[key].flag}`)));
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.array(word), (name, args) => {
        try {
          parseOptions(name, args, {});
        } catch (error) {
          expect(error).toBeInstanceOf(UsageError);
        }
      }),
    );
  });
});

describe('OPTIONS', () => {
  it.each(optionKeys)('%s: its default, as help shows it, reads back as itself', (key) => {
    const { kind, default: defaultValue } = optionOf(key);
    if (defaultValue !== undefined) expect(kind.parse(kind.format(defaultValue))).toEqual(defaultValue);
    expect(environmentVariableOf(key)).toMatch(/^WG_KEEPALIVE_[A-Z_]+$/);
  });

  it('belong to a command each', () => {
    const used = new Set(Object.values(COMMANDS).flatMap(({ options }) => options as readonly string[]));
    expect(optionKeys.filter((key) => !used.has(key))).toEqual([]);
  });
});
