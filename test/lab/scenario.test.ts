import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseScenario, readScenario } from '../../infra/lab/scenario.ts';

const folder = join(import.meta.dirname, '../../infra/lab/scenarios');
const shipped = await readdir(folder);
const minimal = `
name: minimal
description: nothing happens
tunnels: 2
expectations:
  - { by: 1s, value: Connected, tunnels: { liqo-tunnel: Connected, liqo-tunnel1: Connected } }
`;

describe('scenario file', () => {
  test.each(shipped)('%s, which is shipped, is one, and is named after itself', async (file) => {
    const scenario = await readScenario(join(folder, file));
    expect(`${scenario.name}.yaml`).toBe(file);
  });

  test('takes settings by the names of the flags, and the defaults for the rest', () => {
    const scenario = parseScenario(
      `${minimal}settings: { ping-interval: 50ms, ping-loss-threshold: 3, ping-enabled: false, gateway-silent-after: 5s }`,
      'x.yaml',
    );
    expect(scenario.ping).toEqual({
      ...{ enabled: false, port: 12345, intervalMs: 50, lossThreshold: 3 },
      ...{ updateStatusIntervalMs: 10_000, bufferSizeBytes: 1024 },
    });
    expect(scenario.functions).toEqual({ updateStatusIntervalMs: 10_000, gatewaySilentAfterMs: 5_000 });
    expect(parseScenario(minimal, 'x.yaml').functions.gatewaySilentAfterMs).toBe(30_000);
  });

  test.each([
    ['a: [', 'is no YAML'],
    ['', 'the file: null, want a mapping of name, description'],
    [`${minimal}speed: 3`, 'speed: there is no such field, want a mapping of name'],
    [minimal.replace('tunnels: 2', 'tunnels: 65'), 'tunnels: 65, want an integer from 1 to 64'],
    [minimal.replace('1s', 'soon'), 'expectations[0].by: "soon", want a duration such as 500ms or 2s'],
    [
      minimal.replace('value: Connected', 'value: Up'),
      'expectations[0].value: "Up", want Connected, Connecting or Error',
    ],
    [
      minimal.replace('liqo-tunnel1:', 'wg0:'),
      'expectations[0].tunnels.wg0: there is no such field, want the name of a tunnel',
    ],
    [
      `${minimal}settings: { ping-intervall: 2s }`,
      'settings.ping-intervall: there is no such field, want one of ping-enabled, ping-interval',
    ],
    [`${minimal}settings: { ping-interval: 2 }`, 'settings.ping-interval: 2, want a duration such as 50ms'],
    [
      `${minimal}steps: [{ at: 1s }]`,
      'steps[0]: {"at":"1s"}, want a time (at) and one of cut, restore, lose, delay, scale, crash',
    ],
    [`${minimal}steps: [{ at: 1s, scale: 3, cut: [liqo-tunnel] }]`, 'want a time (at) and one of cut, restore'],
    [`${minimal}steps: [{ at: 1s, crash: nobody }]`, 'steps[0].crash: "nobody", want one of tunnel-status,'],
    [`${minimal}steps: [{ cut: [liqo-tunnel] }]`, 'steps[0].at: is missing'],
    [`${minimal}steps: [{ at: 1s, cut: [liqo-tunnel2] }]`, 'steps[0]: there is no "liqo-tunnel2" by then'],
    [`${minimal}steps: [{ at: 1s, scale: 4 }, { at: 500ms, scale: 2 }]`, 'steps[1].at: 500ms is before the step above'],
    [
      `${minimal}steps: [{ at: 2s, scale: 4 }]`,
      'expectations: the last one is by 1s, want one after the last step (2s)',
    ],
  ])('refuses fault %# with a message that names field, value and what is wanted', (text, message) => {
    expect(() => parseScenario(text, 'x.yaml')).toThrow(/^scenario x\.yaml: /);
    expect(() => parseScenario(text, 'x.yaml')).toThrow(message);
  });

  test('names a file that is not there', async () => {
    await expect(readScenario('no/such.yaml')).rejects.toThrow('scenario no/such.yaml: cannot be read: ENOENT');
  });
});
