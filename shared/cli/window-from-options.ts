import { endsBeforeItBegins, type ReplayWindow } from '../domain/replay-window.ts';
import type { OptionsOf } from './command-table.ts';
import { UsageError } from './errors.ts';
import { bound } from './replay-option-kinds.ts';

type Flags = Pick<OptionsOf<'replay'>, 'replayFrom' | 'replayTo' | 'connectionRef'>;

/** @throws UsageError for a window that ends before it begins */
export function windowFromOptions({ replayFrom: from, replayTo: to, connectionRef: connection }: Flags): ReplayWindow {
  const window = { ...(from && { from }), ...(to && { to }), ...(connection && { connection }) };
  if (from && to && endsBeforeItBegins(window)) {
    throw new UsageError(`--to ${bound.format(to)}: is before --from ${bound.format(from)}; the window would be empty`);
  }
  return window;
}
