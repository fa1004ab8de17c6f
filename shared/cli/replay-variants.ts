import type { FunctionSettings } from '../domain/function-settings.ts';
import type { RecordedSettings } from '../domain/recording.ts';
import { UsageError } from './errors.ts';
import { OPTIONS, type OptionKey, optionOf } from './options.ts';
import type { SettingChange, SettingSweep } from './replay-option-kinds.ts';

/** Settings that a window can be judged by. */
const JUDGED_BY = [
  'pingIntervalMs',
  'pingLossThreshold',
  'pingUpdateStatusIntervalMs',
  'gatewaySilentAfterMs',
] as const satisfies readonly OptionKey[];
const MAX_STEPS = 100;

type JudgedBy = (typeof JUDGED_BY)[number];

/** One way to judge the window; what is left out is as it was recorded. */
export type Variant = { readonly label: string; readonly changes: Partial<Record<JudgedBy, number>> };

/** How functions were set when the window was recorded; where it does not tell, the defaults. */
export function functionSettingsOf(recorded: RecordedSettings): FunctionSettings {
  return {
    updateStatusIntervalMs: recorded.pingUpdateStatusIntervalMs ?? OPTIONS.pingUpdateStatusIntervalMs.default,
    gatewaySilentAfterMs: recorded.gatewaySilentAfterMs ?? OPTIONS.gatewaySilentAfterMs.default,
  };
}

/**
 * All `--set` together are one variant; a sweep is one for each of its values, with the `--set` in each.
 *
 * @throws UsageError for a flag or a value that cannot be judged by, and for a flag that has two values
 */
export function variantsOf(changes: readonly SettingChange[], sweep: SettingSweep | undefined): readonly Variant[] {
  refuseRepeats(changes);
  const swept = changes.find(({ flag }) => flag === sweep?.flag);
  if (swept !== undefined) {
    throw new UsageError(
      `--sweep ${swept.flag} and --set ${swept.flag}=${swept.value}: the sweep goes through its values; leave one out`,
    );
  }
  const set = changes.map(({ flag, value }) => change('--set', flag, value));
  const together = Object.assign({}, ...set.map(({ changes: one }) => one)) as Variant['changes'];
  if (sweep === undefined) {
    return set.length === 0 ? [] : [{ label: set.map(({ label }) => label).join(' '), changes: together }];
  }
  return valuesOf(sweep).map((value) => {
    const { label, changes: one } = change('--sweep', sweep.flag, value);
    return { label, changes: { ...together, ...one } };
  });
}

/**
 * What `--set` says of the functions, where a replay is held against what they did: of their settings one makes them
 * decide otherwise, the verdicts of gateways and the silences are in the stream.
 *
 * @throws UsageError for any other flag, and for a repeated one
 */
export function statedSettings(changes: readonly SettingChange[]): Partial<FunctionSettings> {
  refuseRepeats(changes);
  const { flag: own } = OPTIONS.pingUpdateStatusIntervalMs;
  const other = changes.find(({ flag }) => flag !== own);
  if (other !== undefined) {
    throw new UsageError(
      `--set ${other.flag}: in a comparison it states how the functions ran, and only ${own} is not in the stream; ` +
        `leave --diff out to see what ${other.flag}=${other.value} would have changed`,
    );
  }
  const stated = changes.map(({ flag, value }) => change('--set', flag, value).changes.pingUpdateStatusIntervalMs);
  const updateStatusIntervalMs = stated.at(-1);
  return updateStatusIntervalMs === undefined ? {} : { updateStatusIntervalMs };
}

function refuseRepeats(changes: readonly SettingChange[]): void {
  const repeat = changes.find(({ flag }, at) => changes.findIndex((one) => one.flag === flag) < at);
  if (repeat === undefined) return;
  const given = changes.filter(({ flag }) => flag === repeat.flag).map(({ flag, value }) => `--set ${flag}=${value}`);
  throw new UsageError(`${given.join(' ')}: one setting has one value; --sweep compares several`);
}

function change(source: string, flag: string, value: string): Variant {
  const key = keyOf(source, flag);
  const { kind } = optionOf(key);
  const parsed = kind.parse(value);
  if (parsed === undefined) throw new UsageError(`${source} ${flag}=${value}: want ${kind.want}`);
  return { label: `${flag}=${value}`, changes: { [key]: parsed as number } };
}

function keyOf(source: string, flag: string): JudgedBy {
  const key = JUDGED_BY.find((candidate) => OPTIONS[candidate].flag === flag);
  if (key !== undefined) return key;
  const want = JUDGED_BY.map((candidate) => OPTIONS[candidate].flag).join(', ');
  throw new UsageError(`${source} ${flag}: a window can be judged by ${want}`);
}

function valuesOf({ flag, from, to, step }: SettingSweep): readonly string[] {
  const key = keyOf('--sweep', flag);
  const { kind } = optionOf(key);
  const shown = `--sweep ${flag}=${from}..${to}${step === undefined ? '' : `/${step}`}`;
  const [first, last] = [from, to].map((value) => change('--sweep', flag, value).changes[key] as number) as [
    number,
    number,
  ];
  const isCount = key === 'pingLossThreshold';
  const by = step === undefined ? (isCount ? 1 : undefined) : (kind.parse(step) as number | undefined);
  if (by === undefined || by <= 0) throw new UsageError(`${shown}: want a step, such as ${flag}=2s..10s/2s`);
  const count = Math.floor((last - first) / by) + 1;
  if (count < 2 || count > MAX_STEPS)
    throw new UsageError(`${shown}: are ${Math.max(0, count)} values, want 2 to ${MAX_STEPS}`);
  return Array.from({ length: count }, (_, index) => kind.format(first + index * by));
}
