import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { RecordingWriter } from '../../../shared/adapters/recording-file.ts';
import { systemClock } from '../../../shared/adapters/system-clock.ts';
import { recordingHeader } from '../../../shared/cli/write-recording.ts';
import type { RecordedMessage } from '../../../shared/domain/recorded-message.ts';
import { pacer } from '../../../shared/runtime/pace.ts';
import { type SyntheticOptions, syntheticObservations } from '../../support/synthetic-observations.ts';
import type { BenchCase, Suite } from '../suite.ts';
import { BATCH, EARLY_EVENTS, type Measured } from './measured.ts';

/** About three hours of 64 tunnels that are asked every 2 s. */
const RECORDED = { connections: 1, tunnels: 64, intervalMs: 2_000, rounds: 5_000 };
const PROCESS = join(import.meta.dirname, 'replay-process.ts');
const MIB = 1_048_576;
const RATE = { unit: 'events/CPU s', better: 'higher' } as const;
const DAY = { ...RECORDED, rounds: 43_200 };
/** A heap that the events of a minute would overflow, were they kept. */
const SMALL_HEAP = '--max-old-space-size=128';
const MANY_EVENTS = 10_000_000;

let folder = '';
let file = '';

export const suite: Suite = {
  name: 'replay',
  summary:
    'Recorded observations of 64 tunnels through the functions, end to end from a file, by CPU time of one process; memory with a heap of 128 MiB',
  async prepare() {
    folder = await mkdtemp(join(tmpdir(), 'wgk-bench-replay-'));
    file = join(folder, 'recording');
    await write(file, RECORDED);
    return { [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
  },
  cases: [
    { name: 'read the file', ...RATE, run: () => rateOf('read') },
    { name: 'replay: timeline and digest', ...RATE, floor: 'read the file', goal: 50_000, run: () => rateOf('replay') },
    { name: 'explain', ...RATE, floor: 'read the file', run: () => rateOf('explain') },
    { name: 'what if, beside what was', ...RATE, floor: 'read the file', run: () => rateOf('what-if') },
    {
      ...{ name: 'a day of 64 tunnels at 2 s, explained', unit: 's', better: 'lower', goal: 60, once: true },
      run: explainDay,
    },
    ...[100_000, 400_000, 1_600_000].map(memoryCase),
    {
      name: `peak memory of ${MANY_EVENTS} events, of that of the first ${EARLY_EVENTS}`,
      ...{ unit: '×', better: 'lower', goal: 1.1, once: true },
      async run() {
        const { maxRssBytes, earlyRssBytes } = await measure('stream', String(MANY_EVENTS), SMALL_HEAP);
        return maxRssBytes / earlyRssBytes;
      },
    },
    {
      ...{ name: 'lateness p99 at the original speed', unit: 'ms', better: 'lower', goal: 10 },
      run: (_repeat, { durationMs }) => latenessP99Ms(durationMs),
    },
  ],
};

function memoryCase(events: number): BenchCase {
  return {
    ...{ name: `peak memory, ${events} events`, unit: 'MiB', better: 'lower' },
    curve: {
      ...{ name: 'memory of a replay', by: 'events', at: events },
      why: 'events are streamed: none of them is kept, so the exponent is 0',
    },
    run: async () => (await measure('stream', String(events), SMALL_HEAP)).maxRssBytes / MIB,
  };
}

async function write(path: string, options: SyntheticOptions): Promise<void> {
  const writer = await RecordingWriter.create(path, recordingHeader({ source: 'lab' }));
  let batch: RecordedMessage[] = [];
  for (const message of syntheticObservations(options)) {
    batch.push(message);
    if (batch.length < BATCH) continue;
    await writer.messages(batch);
    batch = [];
  }
  await writer.messages(batch);
  await writer.finish();
}

/** By the wall clock: how long somebody waits for the answer. */
async function explainDay(): Promise<number> {
  const day = join(folder, 'day');
  await write(day, DAY);
  const { wallMs } = await measure('explain', day);
  await rm(day);
  return wallMs / 1e3;
}

async function measure(what: string, subject: string, ...flags: readonly string[]): Promise<Measured> {
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, PROCESS, what, subject]);
  return JSON.parse(stdout) as Measured;
}

async function rateOf(what: string): Promise<number> {
  const { events, cpuMs } = await measure(what, file);
  return (events / cpuMs) * 1e3;
}

/** How late events come out of the pacer, one every 20 ms. */
async function latenessP99Ms(durationMs: number): Promise<number> {
  const everyMs = 20;
  const pace = pacer(systemClock, 1);
  const never = new AbortController().signal;
  const latenessMs: number[] = [];
  const startedMs = systemClock.monotonicMs();
  for (let atMs = 0; atMs < durationMs; atMs += everyMs) {
    await pace(atMs, never);
    latenessMs.push(systemClock.monotonicMs() - startedMs - atMs);
  }
  return latenessMs.toSorted((a, b) => a - b)[Math.floor(latenessMs.length * 0.99)] as number;
}
