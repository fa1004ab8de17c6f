/**
 * One measurement in a process of its own: `replay-process.ts WHAT FILE|EVENTS`, one JSON object on stdout. What is
 * counted is mostly the process's own CPU time, so that others on the machine do not count.
 */
import { Writable } from 'node:stream';
import { openRecording } from '../../../shared/adapters/recording-file.ts';
import { explainSource } from '../../../shared/cli/commands/explain.ts';
import { LineOutput } from '../../../shared/cli/line-output.ts';
import type { ReplaySource } from '../../../shared/cli/replay-source.ts';
import { REPLAYED_FUNCTIONS, replayTimeline } from '../../../shared/cli/replay-timeline.ts';
import { functionSettingsOf } from '../../../shared/cli/replay-variants.ts';
import type { RecordedMessage } from '../../../shared/domain/recorded-message.ts';
import { WhatIf } from '../../../shared/runtime/what-if.ts';
import { syntheticObservations } from '../../support/synthetic-observations.ts';
import { BATCH, EARLY_EVENTS, type Measured } from './measured.ts';

const REF = { namespace: 'liqo-tenant-0', name: 'gw-0' };
const settings = functionSettingsOf({});
const stop = new AbortController().signal;
const nowhere = new LineOutput(new Writable({ write: (_bytes, _encoding, done) => done() }));

let earlyRssBytes = 0;
const peakRssBytes = () => process.resourceUsage().maxRSS * 1_024;

const WORK: Readonly<Record<string, (subject: string) => Promise<number>>> = {
  async read(file) {
    let events = 0;
    for await (const batch of (await openRecording(file)).messages('OBSERVATIONS')) events += batch.length;
    return events;
  },
  replay: async (file) => timeline(await sourceOf(file)),
  async explain(file) {
    let events = 0;
    const source = await sourceOf(file, (batch) => {
      events += batch.length;
    });
    if ((await explainSource(source, REF, undefined, stop)) === undefined) throw new Error('nothing was explained');
    return events;
  },
  async 'what-if'(file) {
    const whatIf = new WhatIf({
      functions: REPLAYED_FUNCTIONS,
      recorded: { ...settings, intervalMs: 2_000, lossThreshold: 5 },
      variants: [
        { label: 'as recorded', settings: {} },
        { label: 'other', settings: { verdict: { intervalMs: 2_000, lossThreshold: 3 } } },
      ],
    });
    let events = 0;
    for await (const batch of (await openRecording(file)).messages('OBSERVATIONS')) {
      for (const message of batch) await whatIf.take(message);
      events += batch.length;
    }
    return events;
  },
  /** Events that are made as they are read: as many as one likes. */
  stream: (events) => timeline(madeUp(Number(events))),
};

async function timeline(source: ReplaySource): Promise<number> {
  let events = 0;
  const counted: ReplaySource = {
    ...source,
    async *messages(stream, signal) {
      for await (const batch of source.messages(stream, signal)) {
        events += batch.length;
        if (events >= EARLY_EVENTS) earlyRssBytes ||= peakRssBytes();
        yield batch;
      }
    },
  };
  await replayTimeline(counted, { settings, speed: Number.POSITIVE_INFINITY, json: false, output: nowhere, stop });
  return events;
}

/** All but the messages: a whole stream, and nothing beside it. */
function sourceNamed(name: string): Omit<ReplaySource, 'messages'> {
  return {
    ...{ name, isLive: false, fromStreamStart: true, settings: {}, notes: [] },
    contents: async () => '',
    close: async () => {},
    connection: async () => undefined,
  };
}

async function sourceOf(
  file: string,
  onBatch: (batch: readonly RecordedMessage[]) => void = () => {},
): Promise<ReplaySource> {
  const recording = await openRecording(file);
  return {
    ...sourceNamed(file),
    async *messages(stream) {
      for await (const batch of recording.messages(stream)) {
        onBatch(batch);
        yield batch;
      }
    },
  };
}

function madeUp(events: number): ReplaySource {
  const tunnels = 64;
  const rounds = Math.ceil(events / tunnels);
  return {
    ...sourceNamed('made up'),
    async *messages() {
      let batch: RecordedMessage[] = [];
      for (const message of syntheticObservations({ connections: 1, tunnels, intervalMs: 2_000, rounds })) {
        batch.push(message);
        if (batch.length < BATCH) continue;
        yield batch;
        batch = [];
      }
      yield batch;
    },
  };
}

const [what = '', subject = ''] = process.argv.slice(2);
const work = WORK[what];
if (work === undefined) throw new Error(`${what}: want one of ${Object.keys(WORK).join(', ')}`);
const before = process.cpuUsage();
const startedMs = performance.now();
const events = await work(subject);
const wallMs = performance.now() - startedMs;
const { user, system } = process.cpuUsage(before);
const measured: Measured = {
  ...{ events, wallMs, earlyRssBytes },
  cpuMs: (user + system) / 1e3,
  maxRssBytes: peakRssBytes(),
};
process.stdout.write(`${JSON.stringify(measured)}\n`);
