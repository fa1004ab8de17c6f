import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { RecordingWriter } from '../../../shared/adapters/recording-file.ts';
import { systemClock } from '../../../shared/adapters/system-clock.ts';
import { recordingHeader } from '../../../shared/cli/write-recording.ts';
import { pacer } from '../../../shared/runtime/pace.ts';
import { syntheticObservations } from '../../support/synthetic-observations.ts';
import type { BenchCase, Suite } from '../suite.ts';

/** About three hours of 64 tunnels that are asked every 2 s. */
const RECORDED = { connections: 1, tunnels: 64, intervalMs: 2_000, rounds: 5_000 };
const PROCESS = join(import.meta.dirname, 'replay-process.ts');
const MIB = 1_048_576;
const RATE = { unit: 'events/CPU s', better: 'higher' } as const;

let file = '';

export const suite: Suite = {
  name: 'replay',
  summary:
    'Recorded observations of 64 tunnels through the functions, end to end from a file, by CPU time of one process',
  async prepare() {
    const folder = await mkdtemp(join(tmpdir(), 'wgk-bench-replay-'));
    file = join(folder, 'recording');
    const writer = await RecordingWriter.create(file, recordingHeader({ source: 'lab' }));
    await writer.messages(syntheticObservations(RECORDED));
    await writer.finish();
    return { [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
  },
  cases: [
    { name: 'read the file', ...RATE, run: () => rateOf('read') },
    { name: 'replay: timeline and digest', ...RATE, floor: 'read the file', run: () => rateOf('replay') },
    { name: 'explain', ...RATE, floor: 'read the file', run: () => rateOf('explain') },
    { name: 'what if, beside what was', ...RATE, floor: 'read the file', run: () => rateOf('what-if') },
    ...[100_000, 400_000, 1_600_000].map(memoryCase),
    {
      ...{ name: 'lateness p99 at the original speed', unit: 'ms', better: 'lower' },
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
    run: async () => (await measure('stream', String(events))).maxRssBytes / MIB,
  };
}

type Measured = { readonly events: number; readonly cpuMs: number; readonly maxRssBytes: number };

async function measure(what: string, subject: string): Promise<Measured> {
  const { stdout } = await promisify(execFile)(process.execPath, [PROCESS, what, subject]);
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
