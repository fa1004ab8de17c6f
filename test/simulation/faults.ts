import type { Random } from './random.ts';

/** What goes wrong in one run, drawn from its seed. Probabilities are per port call unless said otherwise. */
export type Faults = {
  readonly crash: number;
  readonly freeze: number;
  /** The API takes this long, uniform in [0, …). */
  readonly apiDelayMs: number;
  /** The API refuses, or fails after it has done what was asked. */
  readonly apiError: number;
  /** A conflict though nobody else wrote. */
  readonly apiConflict: number;
  /** A write gets no answer in time, and happens all the same, later. */
  readonly apiLate: number;
  /** The state store fails, before or after it has done what was asked. */
  readonly stateError: number;
  /** The bus gives no answer to what a function publishes or asks, before or after it has done it. */
  readonly busError: number;
  /** Per observation: published twice, swapped with the next, never published. */
  readonly duplicate: number;
  readonly reorder: number;
  readonly drop: number;
  /** Per observation: the number of one before it comes again with another word, from somebody's tool or a gateway's twin. */
  readonly resend: number;
  /** Per second of the run. */
  readonly gatewayRestart: number;
  readonly scale: number;
  readonly deleteConnection: number;
  readonly foreignPut: number;
  readonly clockStep: number;
  readonly feedCut: number;
  readonly malformed: number;
  /** The bus is away for up to 80 s; gateways keep what they have to say until it is back. */
  readonly busOutage: number;
  /** A gateway that was replaced goes on talking. */
  readonly zombieGateway: boolean;
};

export const NO_FAULTS: Faults = {
  crash: 0,
  freeze: 0,
  apiDelayMs: 20,
  apiError: 0,
  apiConflict: 0,
  apiLate: 0,
  stateError: 0,
  busError: 0,
  duplicate: 0,
  reorder: 0,
  drop: 0,
  resend: 0,
  gatewayRestart: 0,
  scale: 0,
  deleteConnection: 0,
  foreignPut: 0,
  clockStep: 0,
  feedCut: 0,
  malformed: 0,
  busOutage: 0,
  zombieGateway: false,
};

/** That change what is told, or its order: with one of them no transition has to be written. */
const CHANGES = {
  ...{ apiLate: 0, stateError: 0, scale: 0, deleteConnection: 0, foreignPut: 0, gatewayRestart: 0 },
  ...{ reorder: 0, resend: 0 },
} satisfies Partial<Faults>;
const REFUSALS = { apiError: 0, apiConflict: 0 } satisfies Partial<Faults>;
const DEATHS = { crash: 0, freeze: 0 } satisfies Partial<Faults>;

/**
 * Each kind of fault in about half of the runs, so that every pair of kinds meets in a quarter of them; a quarter of the
 * runs has only such faults that no transition may be lost by.
 */
export function drawFaults(random: Random): Faults {
  const sometimes = (value: number, otherwise = 0) => (random.chance(0.5) ? value : otherwise);
  const all: Faults = {
    crash: sometimes(0.004),
    freeze: sometimes(0.002),
    apiDelayMs: random.pick([5, 50, 400]),
    apiError: sometimes(random.pick([0.02, 0.15])),
    apiConflict: sometimes(random.pick([0.05, 0.3])),
    apiLate: sometimes(0.02),
    stateError: sometimes(0.01),
    busError: sometimes(0.01),
    duplicate: sometimes(0.1),
    reorder: sometimes(0.05),
    drop: sometimes(0.05),
    resend: sometimes(0.1),
    gatewayRestart: sometimes(0.02),
    scale: sometimes(0.02),
    deleteConnection: sometimes(0.01),
    foreignPut: sometimes(0.02),
    clockStep: sometimes(0.05),
    feedCut: sometimes(0.01),
    malformed: sometimes(0.02),
    busOutage: sometimes(0.01),
    zombieGateway: random.chance(0.5),
  };
  return { ...all, ...random.pick([{}, {}, {}, {}, {}, {}, { ...CHANGES, ...REFUSALS }, { ...CHANGES, ...DEATHS }]) };
}

/** Faults that leave every transition to be written, in order: nothing refuses, nothing changes the list. */
export function keepsTransitions(faults: Faults): boolean {
  return hasNone(faults, { ...CHANGES, ...REFUSALS });
}

/** Faults under which every transition that is not written must be counted: the API refuses, and nothing else is lost. */
export function countsTransitions(faults: Faults): boolean {
  return hasNone(faults, { ...CHANGES, ...DEATHS });
}

function hasNone(faults: Faults, kinds: Partial<Faults>): boolean {
  return (Object.keys(kinds) as (keyof Faults)[]).every((kind) => faults[kind] === 0);
}
