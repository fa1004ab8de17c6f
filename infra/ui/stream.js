/** @import { PagePatch } from '../../shared/domain/page-patch.ts' */

/** The server says something at least every two seconds. */
const STALE_AFTER_MS = 5_000;
const RECONNECT_EVERY_MS = 4_000;
const LOOK_EVERY_MS = 500;

/**
 * Listens to the server for as long as the page lives. A connection that stands and brings nothing is replaced by a new
 * one, again and again: a server that was frozen never closes it.
 *
 * @param {{ onPatch: (patch: PagePatch) => void, onSilence: (silentMs: number | undefined) => void }} told
 *   `onSilence` is told about twice a second how long the server has been silent, `undefined` while it is not
 */
export function listen({ onPatch, onSilence }) {
  let heardAt = performance.now();
  let openedAt = heardAt;
  let source = open();

  function open() {
    const opened = new EventSource('events');
    openedAt = performance.now();
    opened.addEventListener('patch', (event) => {
      if (opened !== source) return;
      hear();
      onPatch(JSON.parse(event.data));
    });
    opened.addEventListener('beat', () => {
      if (opened === source) hear();
    });
    return opened;
  }

  function hear() {
    heardAt = performance.now();
    onSilence(undefined);
  }

  setInterval(() => {
    const now = performance.now();
    const silentMs = now - heardAt;
    if (silentMs < STALE_AFTER_MS) return;
    onSilence(silentMs);
    if (now - openedAt < RECONNECT_EVERY_MS) return;
    source.close();
    source = open();
  }, LOOK_EVERY_MS);

  return {
    /** Begins anew, with everything. */
    restart() {
      source.close();
      source = open();
    },
  };
}
