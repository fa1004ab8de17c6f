/**
 * `npm run soak -- [--duration 30m] [--tunnels 64] [--replicas 2] [--seed N]`: real parts under chaos, and what must hold in the end.
 * `npm run soak -- --case C15 [--duration 10m]`: one of the long cases, in its full length; `--case all`: all of them; `--list` names them.
 *
 * Exit code 1 if something does not hold, 2 for a wrong argument. The seed decides what happens, in which order and for how
 * long; what the machine makes of it is never the same twice.
 */
import { parseArgs } from 'node:util';
import { UsageError } from '../../shared/cli/errors.ts';
import { formatDuration, parseDuration } from '../../shared/domain/duration.ts';
import { MAX_TUNNELS } from '../../shared/domain/tunnel-interface.ts';
import { missingParts } from '../support/real-parts.ts';
import { apiBlackhole } from './cases/api-blackhole.ts';
import { manyExchanges } from './cases/many-exchanges.ts';
import { natsAway } from './cases/nats-away.ts';
import { natsKilled } from './cases/nats-killed.ts';
import { noDrift } from './cases/no-drift.ts';
import { noLookups } from './cases/no-lookups.ts';
import { randomLoss } from './cases/random-loss.ts';
import { tokenRotated } from './cases/token-rotated.ts';
import { writeStorm } from './cases/write-storm.ts';
import { writesAudited } from './cases/writes-audited.ts';
import { chaosRun } from './chaos-run.ts';
import type { LongCase } from './long-case.ts';

const LONG_CASES: readonly LongCase[] = [
  randomLoss,
  writesAudited,
  writeStorm,
  apiBlackhole,
  tokenRotated,
  natsKilled,
  natsAway,
  noLookups,
  noDrift,
  manyExchanges,
];
const DEFAULT_DURATION = '30m';
const DEFAULT_TUNNELS = '64';
const DEFAULT_REPLICAS = '2';
const MAX_SEED = 2 ** 31 - 1;

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`soak: ${error.message}\n`);
  process.exitCode = 2;
}

async function main(): Promise<number> {
  const { values } = parsed();
  if (values.list) {
    const lines = LONG_CASES.map(({ name, title, durationMs }) => `${name}  ${formatDuration(durationMs)}  ${title}\n`);
    process.stdout.write(lines.join(''));
    return 0;
  }
  const durationMs = values.duration === undefined ? undefined : duration(values.duration);
  if (values.case !== undefined) return runCases(casesNamed(values.case), durationMs);
  const seed = integer('seed', values.seed ?? `${1 + Math.floor(Math.random() * MAX_SEED)}`, MAX_SEED);
  const chaos = chaosRun({
    seed,
    tunnels: integer('tunnels', values.tunnels ?? DEFAULT_TUNNELS, MAX_TUNNELS),
    replicas: integer('replicas', values.replicas ?? DEFAULT_REPLICAS, 8),
  });
  return runCases([chaos], durationMs ?? duration(DEFAULT_DURATION));
}

async function runCases(cases: readonly LongCase[], durationMs: number | undefined): Promise<number> {
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort(new Error('interrupted')));
  process.once('SIGTERM', () => stop.abort(new Error('terminated')));
  const missing = await Promise.all(cases.map(async ({ name, needs }) => ({ name, parts: await missingParts(needs) })));
  const lacking = missing.flatMap(({ name, parts }) =>
    parts.map(({ need, remedy }) => `${name} needs ${need}: ${remedy}`),
  );
  if (lacking.length > 0) throw new UsageError(lacking.join('; '));
  let failures = 0;
  for (const one of cases) {
    if (stop.signal.aborted) break;
    const startMs = performance.now();
    const say = (line: string) =>
      process.stdout.write(`${((performance.now() - startMs) / 1_000).toFixed(1).padStart(7)}s ${one.name}: ${line}\n`);
    say(one.title);
    const faults = await one
      .run({ durationMs: durationMs ?? one.durationMs, say, signal: stop.signal })
      .catch((error: Error) => [`it did not come to its end: ${reasonsOf(error).join('; and then: ')}`]);
    for (const fault of faults) say(`FAULT ${fault}`);
    say(faults.length === 0 ? 'holds' : `${faults.length} faults`);
    if (faults.length > 0) failures += 1;
  }
  return failures === 0 ? 0 : 1;
}

/** What failed, and what then failed in cleaning up. */
function reasonsOf(error: Error): readonly string[] {
  return error instanceof SuppressedError
    ? [...reasonsOf(error.suppressed), ...reasonsOf(error.error)]
    : [error.message];
}

function parsed() {
  const text = { type: 'string' } as const;
  const options = {
    duration: text,
    tunnels: text,
    replicas: text,
    seed: text,
    case: text,
    list: { type: 'boolean' },
  } as const;
  try {
    return parseArgs({ options });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function casesNamed(name: string): readonly LongCase[] {
  if (name === 'all') return LONG_CASES;
  const found = LONG_CASES.filter((one) => one.name === name.toUpperCase());
  if (found.length > 0) return found;
  throw new UsageError(
    `--case ${JSON.stringify(name)}: want all or one of ${LONG_CASES.map((one) => one.name).join(', ')}`,
  );
}

function duration(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms >= 1_000) return ms;
  throw new UsageError(`--duration ${JSON.stringify(text)}: want a duration from 1s, such as 30m`);
}

function integer(flag: string, text: string, max: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 1 && value <= max) return value;
  throw new UsageError(`--${flag} ${JSON.stringify(text)}: want an integer from 1 to ${max}`);
}
