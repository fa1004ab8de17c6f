import { emitKeypressEvents } from 'node:readline';
import { CATALOG } from '../../functions/catalog.ts';
import type { Connection } from '../../shared/domain/connection.ts';
import { interfaceIdOf, MAX_TUNNELS } from '../../shared/domain/tunnel-interface.ts';
import type { Clock } from '../../shared/ports/clock.ts';
import type { Lab } from './lab.ts';
import { labChanges, labTable } from './lab-view.ts';

const REDRAW_MS = 250;
const CLEAR = '\u001b[H\u001b[J';
/** A screen of its own, so that the terminal is afterwards as it was. */
const ENTER_SCREEN = '\u001b[?1049h';
const LEAVE_SCREEN = '\u001b[?1049l';
const FALLBACK_SIZE = { columns: 80, rows: 24 };
/** Title, keys and the blank lines around the table. */
const FRAME_ROWS = 6;

export type LabScreen = {
  readonly out: NodeJS.WriteStream;
  /** Keys are read from it where it is a terminal. */
  readonly input: NodeJS.ReadStream;
};

/**
 * Shows a lab until `signal` aborts: a live table with keys on a terminal, a line a change elsewhere.
 *
 * @param quit - called when the user has had enough
 * @returns the Connections as they were last
 */
export async function watchLab(
  lab: Lab,
  { out, input }: LabScreen,
  options: {
    readonly clock: Clock;
    readonly tunnels: number;
    readonly signal: AbortSignal;
    readonly quit: () => void;
    /** Where the lab's page is. */
    readonly pageUrl?: string;
  },
): Promise<readonly Connection[]> {
  const { clock, signal, pageUrl } = options;
  const keys = out.isTTY && input.isTTY ? labKeys(lab, input, options) : undefined;
  const startedMs = clock.monotonicMs();
  const where = pageUrl === undefined ? '' : `, page: ${pageUrl}`;
  if (out.isTTY) out.write(ENTER_SCREEN);
  else if (pageUrl !== undefined) out.write(`page: ${pageUrl}\n`);
  let shown: readonly Connection[] = [];
  let fault = '';
  try {
    for (let isLast = false; !isLast; ) {
      isLast = signal.aborted; // one more look at what has come of the last step
      const before = fault;
      const connections = await lab.connections().then(
        (found) => {
          fault = '';
          return found;
        },
        (error: Error) => {
          fault = `the API does not answer, this is what it said last: ${error.message}`;
          return shown;
        },
      );
      const elapsed = `${((clock.monotonicMs() - startedMs) / 1_000).toFixed(1)}s`;
      if (out.isTTY) out.write(screenOf(connections));
      else {
        if (fault !== before && fault !== '') out.write(`${elapsed.padStart(7)} ${fault}\n`);
        for (const line of labChanges(shown, connections)) out.write(`${elapsed.padStart(7)} ${line}\n`);
      }
      shown = connections;
      await clock.sleep(REDRAW_MS, signal).catch(() => {});
    }
    return shown;
  } finally {
    keys?.close();
    if (out.isTTY) out.write(`${LEAVE_SCREEN}${tableFor(out, shown)}`);
  }

  function screenOf(connections: readonly Connection[]): string {
    const elapsed = `${((clock.monotonicMs() - startedMs) / 1_000).toFixed(1)}s`;
    const lines = [`wg-keepalive lab, ${elapsed}${where}`, '', tableFor(out, connections), fault, keys?.help() ?? ''];
    return `${CLEAR}${lines.join('\n')}`;
  }
}

function tableFor(out: NodeJS.WriteStream, connections: readonly Connection[]): string {
  const { columns, rows } = out.columns > 0 ? out : FALLBACK_SIZE;
  return labTable(connections, { columns, rows: rows - FRAME_ROWS, isColoured: out.hasColors?.() ?? false });
}

/** Cut and restore by number, scale, crash a function, quit. */
function labKeys(
  lab: Lab,
  input: NodeJS.ReadStream,
  { tunnels: initial, quit }: { readonly tunnels: number; readonly quit: () => void },
) {
  let tunnels = initial;
  let said = '';

  async function onKey(key: string): Promise<string> {
    if (/^[1-9]$/.test(key) && Number(key) <= tunnels) return toggle(interfaceIdOf(Number(key) - 1));
    if (key === '+' || key === '-') return scale(tunnels + (key === '+' ? 1 : -1));
    if (key === 'c') {
      for (const { manifest } of CATALOG) await lab.crash(manifest.name);
      return 'one replica of every function was killed and started anew';
    }
    if (key === 'q' || key === '\u0003') quit();
    return said;
  }

  async function toggle(interfaceId: string): Promise<string> {
    if (lab.state().impairments.some((one) => one.interfaceId === interfaceId)) {
      await lab.restore(interfaceId);
      return `${interfaceId} restored`;
    }
    await lab.cut(interfaceId);
    return `${interfaceId} cut`;
  }

  async function scale(wanted: number): Promise<string> {
    if (wanted < 1 || wanted > MAX_TUNNELS) return `1 to ${MAX_TUNNELS} tunnels`;
    tunnels = wanted;
    await lab.scale(wanted);
    return `${wanted} tunnels`;
  }

  const listener = (text: string | undefined, key: { readonly sequence?: string }) => {
    onKey(text ?? key.sequence ?? '').then(
      (what) => {
        said = what;
      },
      (error: Error) => {
        said = error.message;
      },
    );
  };
  emitKeypressEvents(input);
  input.setRawMode(true);
  input.resume();
  input.on('keypress', listener);
  return {
    help: () => `1–9 cut/restore  + − scale  c crash functions  q quit\n${said}`,
    close() {
      input.off('keypress', listener);
      input.setRawMode(false);
      input.pause();
    },
  };
}
