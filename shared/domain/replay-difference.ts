/**
 * Why a replay and the world differ.
 *
 * - `window-start`, `after-window`, `not-recorded`: of the window's making; nothing is wrong
 * - `api-trouble`: the API refused, failed or was slow when it was written
 * - `lateness`: the same came later, or a state that did not last was passed over
 * - `other-settings`: it was judged by another setting than in the replay
 * - `foreign-writer`: another field manager has its hands on it
 * - `orphan-entry`: a tunnel that the Connection shows and nothing in the window is about
 * - `missing-object`: there is no such Connection, or it is another one by now
 * - `unexplained`: none of these: a bug, or events that are missing
 */
export type DifferenceCause =
  | 'window-start'
  | 'after-window'
  | 'not-recorded'
  | 'api-trouble'
  | 'lateness'
  | 'other-settings'
  | 'foreign-writer'
  | 'orphan-entry'
  | 'missing-object'
  | 'unexplained';

export type Difference = {
  readonly cause: DifferenceCause;
  /** `NAMESPACE/NAME`, `NAMESPACE/NAME INTERFACE`. */
  readonly about: string;
  /** Server time of the event, where there is one. */
  readonly at?: number;
  readonly message: string;
  /** The events around it, for people. */
  readonly events?: readonly string[];
};

/** Differences that the choice of the window explains say nothing against anybody. */
export function isHarmless({ cause }: Difference): boolean {
  return cause === 'window-start' || cause === 'after-window' || cause === 'not-recorded';
}
