import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runCommandLine } from '../../shared/cli/dispatch.ts';
import { bound, connectionRef, settingChange, settingSweep, speed } from '../../shared/cli/replay-option-kinds.ts';
import { functionSettingsOf, variantsOf } from '../../shared/cli/replay-variants.ts';
import { parseBound } from '../../shared/domain/replay-window.ts';

describe('arguments of the replay', () => {
  it.each([
    ['#12', { kind: 'sequence', sequence: 12 }],
    ['12', { kind: 'sequence', sequence: 12 }],
    ['2026-01-02T03:04:05Z', { kind: 'time', unixMs: Date.UTC(2026, 0, 2, 3, 4, 5) }],
    ['2026-01-02T03:04:05.25+01:00', { kind: 'time', unixMs: Date.UTC(2026, 0, 2, 2, 4, 5, 250) }],
    ['-15m', { kind: 'relative', beforeEndMs: 900_000 }],
  ])('read the bound %s', (text, value) => {
    expect(bound.parse(text)).toEqual(value);
  });

  it.each(['', '0', '#0', '15m', '--15m', '2026-01-02', 'yesterday', '#1e9', '-', '9999999999999999'])(
    'refuse the bound %j',
    (text) => {
      expect(parseBound(text)).toBeUndefined();
    },
  );

  it('show every value as it may be given again', () => {
    for (const text of ['#12', '2026-01-02T03:04:05.000Z']) expect(bound.format(bound.parse(text) as never)).toBe(text);
    for (const text of ['max', '1', '0.5']) expect(speed.format(speed.parse(text) as number)).toBe(text);
    for (const text of ['ping-interval=2s..10s/2s', 'a=1..2', 'a=1.5s..3.5s/0.5s'])
      expect(settingSweep.format(settingSweep.parse(text) as never)).toBe(text);
    expect(settingChange.format(settingChange.parse('--ping-interval=2s') as never)).toBe('ping-interval=2s');
    expect(connectionRef.format({ namespace: 'a', name: 'b' })).toBe('a/b');
  });

  it.each([
    [speed, ['0', '-1', 'fast', '1e3', '1000000', '']],
    [connectionRef, ['a', 'a/', '/b', 'a/b/c', 'a b/c']],
    [settingChange, ['a', 'a=', '=b', 'A=b', 'a=b=c', 'a b=c']],
    [settingSweep, ['a=1', 'a=1..', 'a=..2', 'a', 'a=1..2/']],
  ])('refuse what is none', (kind, texts) => {
    for (const text of texts)
      expect([text, (kind as { parse(text: string): unknown }).parse(text)]).toEqual([text, undefined]);
  });
});

describe('variants', () => {
  it('are one for all --set together, and one for each value of a sweep', () => {
    const set = [
      { flag: 'ping-loss-threshold', value: '3' },
      { flag: 'ping-update-status-interval', value: '30s' },
    ];
    const changes = { pingLossThreshold: 3, pingUpdateStatusIntervalMs: 30_000 };
    expect(variantsOf(set, undefined)).toEqual([
      { label: 'ping-loss-threshold=3 ping-update-status-interval=30s', changes },
    ]);
    expect(variantsOf([], undefined)).toEqual([]);
    const sweep = variantsOf(set.slice(1), { flag: 'ping-loss-threshold', from: '2', to: '4' });
    expect(sweep.map(({ label }) => label)).toEqual([
      'ping-loss-threshold=2',
      'ping-loss-threshold=3',
      'ping-loss-threshold=4',
    ]);
    expect(sweep[0]?.changes).toEqual({ ...changes, pingLossThreshold: 2 });
    const intervals = variantsOf([], { flag: 'ping-interval', from: '2s', to: '7s', step: '2500ms' });
    expect(intervals.map(({ changes: one }) => one.pingIntervalMs)).toEqual([2_000, 4_500, 7_000]);
  });

  it.each([
    [
      { flag: 'ping-port', value: '1' },
      /--set ping-port: a window can be judged by ping-interval, ping-loss-threshold/,
    ],
    [{ flag: 'ping-loss-threshold', value: 'x' }, /--set ping-loss-threshold=x: want an integer from 1 to 100/],
    [{ flag: 'ping-interval', value: '-1s' }, /--set ping-interval=-1s: want a duration/],
  ])('name what cannot be judged by: %o', (change, message) => {
    expect(() => variantsOf([change], undefined)).toThrow(message);
  });

  it.each([
    [{ flag: 'ping-interval', from: '2s', to: '10s' }, /want a step, such as ping-interval=2s\.\.10s\/2s/],
    [{ flag: 'ping-loss-threshold', from: '5', to: '2' }, /are 0 values, want 2 to 100/],
    [{ flag: 'ping-loss-threshold', from: '5', to: '5' }, /are 1 values/],
    [{ flag: 'ping-interval', from: '1s', to: '1h', step: '1ms' }, /values, want 2 to 100/],
  ])('name what cannot be swept: %o', (sweep, message) => {
    expect(() => variantsOf([], sweep)).toThrow(message);
  });

  it('start from the settings of the recording, else the defaults', () => {
    expect(functionSettingsOf({})).toEqual({ updateStatusIntervalMs: 10_000, gatewaySilentAfterMs: 30_000 });
    expect(functionSettingsOf({ pingUpdateStatusIntervalMs: 1 }).updateStatusIntervalMs).toBe(1);
  });
});

describe('the commands around a replay', () => {
  let said = '';
  beforeEach(() => {
    said = '';
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
      said += String(text);
      return true;
    });
  });
  afterEach(() => void vi.restoreAllMocks());

  it.each([
    [['replay', '--follow', '--to', '#3'], /--follow: has no end; leave --to out/],
    [['replay', '--from', '#9', '--to', '#3'], /--to #3: is before --from #9; the window would be empty/],
    [['export', '--output', 'x', '--from', '-1m', '--to', '-2m'], /--to .*: is before --from/],
    [['replay', '--follow', '--diff'], /--follow: has no end, so nothing can be compared/],
    [
      ['replay', '--diff', '--set', 'ping-loss-threshold=3'],
      /--set ping-loss-threshold: in a comparison it states how/,
    ],
    [['replay', '--diff', '--set', 'ping-update-status-interval=x'], /=x: want a duration/],
    [['replay', '--diff', '--sweep', 'ping-loss-threshold=2..3'], /--sweep: has a table of its own/],
    [['replay', '--diff', '--diff-with', 'x'], /--diff-with: --diff holds the replay against what is/],
    [
      ['replay', '--set', 'ping-loss-threshold=3', '--set', 'ping-loss-threshold=4'],
      /--set ping-loss-threshold=3 --set ping-loss-threshold=4: one setting has one value/,
    ],
    [
      ['replay', '--diff', '--set', 'ping-update-status-interval=3s', '--set', 'ping-update-status-interval=4s'],
      /interval=3s --set ping-update-status-interval=4s: one setting has one value/,
    ],
    [
      ['replay', '--set', 'ping-loss-threshold=3', '--sweep', 'ping-loss-threshold=2..5'],
      /--sweep ping-loss-threshold and --set ping-loss-threshold=3: .*leave one out/,
    ],
    [['replay', '--set', 'nonsense'], /--set "nonsense": want FLAG=VALUE/],
    [['replay', '--speed', 'fast'], /--speed "fast": want max, or how many times/],
    [['replay', '--from', 'tomorrow'], /--from "tomorrow": want a time/],
    [['replay', 'x'], /"x": replay takes flags only/],
    [['explain'], /a Connection is missing: want one NAMESPACE\/NAME/],
    [['explain', 'a'], /"a": want one NAMESPACE\/NAME/],
    [['explain', 'a/b', 'c/d'], /"c\/d": want one NAMESPACE\/NAME/],
    [['export'], /--output: required/],
    [['import', '--pcap', 'x'], /--output: required/],
    [['import', '--pcap', '/nonexistent', '--output', 'y'], /\/nonexistent: byte 0: cannot be read: ENOENT/],
    [['import', '--pcap', '/nonexistent', '--output', '.'], /^wg-keepalive import: \.: is a folder, want a file\n$/],
    [['export', '--output', '.'], /^wg-keepalive export: \.: is a folder, want a file\n$/],
    [['export', '--output', 'new-folder/'], /^wg-keepalive export: new-folder\/: is a folder, want a file\n$/],
    [['lab', '--export', '.'], /^wg-keepalive lab: \.: is a folder, want a file\n$/],
    [['lab', '--export', '/nonexistent/x'], /^wg-keepalive lab: \/nonexistent\/x: cannot be written: ENOENT/],
    [['import', '--pcap', 'x', '--output', 'y', '--local', 'here'], /--local "here": want an IP address/],
  ])('refuse %j with exit code 2, and say what to do', async (args, message) => {
    expect(await runCommandLine(args, {})).toBe(2);
    expect(said).toMatch(message);
  });
});
