import { readFile } from 'node:fs/promises';
import { KubernetesChangeFeed } from '../../adapters/kubernetes-change-feed.ts';
import { NatsBus } from '../../adapters/nats-bus.ts';
import { NatsBusStatistics } from '../../adapters/nats-bus-statistics.ts';
import { NatsHistory } from '../../adapters/nats-history.ts';
import { NatsNotices } from '../../adapters/nats-notices.ts';
import { createPinoLogger } from '../../adapters/pino-logger.ts';
import { systemClock } from '../../adapters/system-clock.ts';
import type { Run } from '../command-table.ts';
import { connectKubernetes } from '../connect-kubernetes.ts';
import { UsageError } from '../errors.ts';
import { natsFromOptions } from '../nats-from-options.ts';
import { pagePast } from '../page-past.ts';
import { servePage } from '../serve-page.ts';
import { abortOnStopSignal } from '../shutdown.ts';

/** A watch that has died is noticed within a few seconds: the page says within 10 s that it may be wrong. */
const WATCH_TIMING = { windowMs: 4_000, graceMs: 3_000, backOffMs: 200, maxBackOffMs: 2_000 } as const;

/** Serves the page until it is stopped. It may see, and can change nothing. */
export const run: Run<'ui'> = async (options) => {
  const log = createPinoLogger({ level: options.logLevel });
  const nats = natsFromOptions(options, { role: 'page' });
  const { uiTokenFile, watchNamespaces } = options;
  const token = uiTokenFile === undefined ? undefined : await readToken(uiTokenFile);
  const kubernetes = await connectKubernetes();
  const stop = abortOnStopSignal(log);
  const bus = NatsBus.open(nats, systemClock, log);
  try {
    const { url, watching } = await servePage({
      ...{ bind: options.uiBindAddress, signal: stop, ...(token !== undefined && { token }) },
      past: pagePast(new NatsHistory(bus.link, systemClock), systemClock),
      sources: {
        live: bus,
        notices: new NatsNotices(bus.link),
        statistics: new NatsBusStatistics(bus.link),
        feed: new KubernetesChangeFeed(kubernetes, {
          ...{ clock: systemClock, random: Math.random, timing: WATCH_TIMING, kinds: ['connections'] },
          ...(watchNamespaces && { namespaces: watchNamespaces }),
        }),
      },
    });
    // A log is for more eyes than the file is.
    process.stdout.write(uiTokenFile === undefined ? `${url}\n` : `${url}?token=… with the token of ${uiTokenFile}\n`);
    await watching;
    return 0;
  } finally {
    await bus.close();
    kubernetes.close();
  }
};

async function readToken(file: string): Promise<string> {
  const token = await readFile(file, 'utf8').catch((cause) => {
    throw new UsageError(`--ui-token-file ${file}: cannot be read: ${cause.message}`, { cause });
  });
  const text = token.trim();
  if (!/^[\w.~-]{16,}$/.test(text)) {
    throw new UsageError(`--ui-token-file ${file}: want at least 16 letters, digits or any of - . _ ~`);
  }
  return text;
}
