import { isDeepStrictEqual } from 'node:util';
import type { BindAddress } from '../../shared/cli/option-kinds.ts';
import { OPTIONS } from '../../shared/cli/options.ts';
import { pagePast } from '../../shared/cli/page-past.ts';
import { servePage } from '../../shared/cli/serve-page.ts';
import type { Clock } from '../../shared/ports/clock.ts';
import { type PageControls, RefusedAction } from '../../shared/ports/page-source.ts';
import type { Lab, LabOptions } from './lab.ts';
import { actionWords, carryOut } from './lab-action.ts';
import { checkAction } from './scenario-schema.ts';

const STATE_EVERY_MS = 200;

/** What the page may do: whatever a scenario's step may, one after another. */
export function labControls(lab: Lab): PageControls {
  let last: Promise<unknown> = Promise.resolve();
  return {
    perform(wanted) {
      const checked = checkAction(wanted);
      if ('faults' in checked) return Promise.reject(new RefusedAction(checked.faults.join('; ')));
      const { action } = checked;
      const done = last.then(() =>
        carryOut(lab, action).catch((cause: Error) => Promise.reject(new RefusedAction(cause.message, { cause }))),
      );
      last = done.catch(() => {});
      return done.then(() => actionWords(action));
    },
  };
}

/**
 * Serves the lab's page until `signal` aborts; says where: on a free port if the one by default is taken.
 * @throws StartError where it cannot listen
 */
export async function startLabPage(
  lab: Lab,
  options: {
    readonly clock: Clock;
    readonly bind: BindAddress;
    readonly signal: AbortSignal;
    /** Of the lab, for who judges its past by others. */
    readonly settings: Pick<LabOptions, 'ping' | 'functions'>;
  },
): Promise<{ readonly url: string }> {
  const { clock, bind, signal } = options;
  const { ping, functions } = options.settings;
  const settings = { intervalMs: ping.intervalMs, lossThreshold: ping.lossThreshold, ...functions };
  const { history, ...sources } = await lab.sources();
  const past = pagePast(history, clock, settings);
  const { view, url, watching } = await servePage({
    ...{ bind, signal, past, sources, controls: labControls(lab) },
    orFreePort: isDeepStrictEqual(bind, OPTIONS.uiBindAddress.default),
  });
  void watching;
  void tellState();
  return { url };

  async function tellState(): Promise<void> {
    while (!signal.aborted) {
      view.setLab(lab.state());
      await clock.sleep(STATE_EVERY_MS, signal).catch(() => {});
    }
  }
}
