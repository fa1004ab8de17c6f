import type { PagePatch } from '../domain/page-patch.ts';

/** Where the page's server gets what it tells. Answers from memory. */
export interface PageSource {
  /** All that has changed since that revision; everything for 0. */
  since(revision: number): PagePatch;
}

/** What only a lab lets the page do. */
export interface PageControls {
  /**
   * Carries out an action in the words of a scenario's step: `{ cut: ['liqo-tunnel1'] }`.
   *
   * @returns what was done, for people
   * @throws RefusedAction where it is no such action, or the lab cannot do it; its message says why
   */
  perform(action: unknown): Promise<string>;
}

/** The message is for who asked for it. */
export class RefusedAction extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RefusedAction';
  }
}

/** What has been, for the page's scrubber. */
export interface PagePast {
  /**
   * @param query - as the page sends it
   * @throws RefusedAction where it cannot be answered; its message says why
   */
  read(query: unknown, signal: AbortSignal): Promise<unknown>;
}
