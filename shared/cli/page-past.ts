import { Ajv2020 } from 'ajv/dist/2020.js';
import type { FunctionSettings } from '../domain/function-settings.ts';
import { type PageFrame, PageFrames } from '../domain/page-frames.ts';
import type { RecordedMessage } from '../domain/recorded-message.ts';
import { SettingsEstimate } from '../domain/recorded-settings.ts';
import type { VerdictSettings } from '../domain/rejudge.ts';
import { compareResults, type WhatIfReport } from '../domain/what-if-text.ts';
import type { Clock } from '../ports/clock.ts';
import { BusError } from '../ports/event-bus.ts';
import type { EventHistory } from '../ports/event-history.ts';
import { type PagePast, RefusedAction } from '../ports/page-source.ts';
import { windowOfHistory } from '../runtime/recorded-window.ts';
import { Replay } from '../runtime/replay.ts';
import { WhatIf } from '../runtime/what-if.ts';
import { OPTIONS } from './options.ts';
import { REPLAYED_FUNCTIONS } from './replay-timeline.ts';

/** A film that a browser holds with ease. */
const MAX_MESSAGES = 150_000;
const MINUTE_MS = 60_000;

type Query = {
  /** Before the last event. */
  readonly minutes: number;
  /** Left out: the film. */
  readonly whatIf?: { readonly lossThreshold: number; readonly updateStatusIntervalMs: number };
};

/** @public The page reads it. */
export type PastFilm = {
  readonly notes: readonly string[];
  readonly recorded: Recorded;
  readonly frames: readonly PageFrame[];
};
/** @public The page reads it. */
export type PastReport = WhatIfReport & { readonly recorded: Recorded };
type Recorded = VerdictSettings & FunctionSettings;

const isQuery = new Ajv2020().compile<Query>({
  type: 'object',
  properties: {
    minutes: { type: 'integer', minimum: 1, maximum: 1_440 },
    whatIf: {
      type: 'object',
      properties: {
        lossThreshold: { type: 'integer', minimum: 1, maximum: 100 },
        updateStatusIntervalMs: { type: 'integer', minimum: 0, maximum: 3_600_000 },
      },
      required: ['lossThreshold', 'updateStatusIntervalMs'],
      additionalProperties: false,
    },
  },
  required: ['minutes'],
  additionalProperties: false,
});

/**
 * The past for the page: a window of OBSERVATIONS, run through the functions again in a sandbox.
 *
 * @param settings - how the window was recorded, where that is known; else it is read off the observations
 */
export function pagePast(history: EventHistory, clock: Clock, settings?: Recorded): PagePast {
  return {
    async read(query, signal) {
      if (!isQuery(query)) {
        const [fault] = isQuery.errors ?? [];
        throw new RefusedAction(`${fault?.instancePath.slice(1) || 'the query'}: ${fault?.message}`);
      }
      const { notes, messages } = await readWindow(history, clock, query.minutes, signal);
      const recorded = settings ?? estimate(messages);
      return query.whatIf
        ? judge(messages, recorded, query.whatIf)
        : { notes, recorded, frames: await film(messages, recorded) };
    },
  };
}

async function readWindow(history: EventHistory, clock: Clock, minutes: number, signal: AbortSignal) {
  try {
    const from = { kind: 'relative', beforeEndMs: minutes * MINUTE_MS } as const;
    const window = await windowOfHistory(history, { from }, { clock, follow: false });
    const messages: RecordedMessage[] = [];
    for await (const batch of window.messages('OBSERVATIONS', signal)) {
      messages.push(...batch);
      if (messages.length > MAX_MESSAGES) {
        throw new RefusedAction(`more than ${MAX_MESSAGES} events: choose a shorter time`);
      }
    }
    return { notes: window.notes, messages };
  } catch (error) {
    if (!(error instanceof BusError)) throw error;
    const hint = error.code === 'denied' ? '; the past needs the rights of the NATS user "page"' : '';
    throw new RefusedAction(`${error.message}${hint}`, { cause: error });
  }
}

function estimate(messages: readonly RecordedMessage[]): Recorded {
  const found = new SettingsEstimate();
  for (const message of messages) found.take(message);
  const { intervalMs, lossThreshold } = found.read();
  return {
    intervalMs: intervalMs ?? OPTIONS.pingIntervalMs.default,
    lossThreshold: lossThreshold ?? OPTIONS.pingLossThreshold.default,
    updateStatusIntervalMs: OPTIONS.pingUpdateStatusIntervalMs.default,
    gatewaySilentAfterMs: OPTIONS.gatewaySilentAfterMs.default,
  };
}

async function film(messages: readonly RecordedMessage[], settings: FunctionSettings): Promise<readonly PageFrame[]> {
  const frames = new PageFrames();
  let isValid = true;
  const replay = new Replay({
    ...REPLAYED_FUNCTIONS,
    settings,
    onStep(step) {
      isValid = step.kind !== 'invalid';
      frames.step(step);
    },
  });
  for (const message of messages) {
    isValid = true;
    await replay.take(message);
    if (isValid) frames.observe(message);
  }
  return frames.end();
}

async function judge(
  messages: readonly RecordedMessage[],
  recorded: Recorded,
  { lossThreshold, updateStatusIntervalMs }: NonNullable<Query['whatIf']>,
): Promise<PastReport> {
  const whatIf = new WhatIf({
    functions: REPLAYED_FUNCTIONS,
    recorded,
    variants: [
      { label: 'as recorded', settings: {} },
      {
        label: 'what if',
        settings: { verdict: { intervalMs: recorded.intervalMs, lossThreshold }, updateStatusIntervalMs },
      },
    ],
  });
  for (const message of messages) await whatIf.take(message);
  return { recorded, ...compareResults(whatIf.results(messages.at(-1)?.storedAtUnixMs ?? 0)) };
}
