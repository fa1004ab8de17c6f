import { randomBytes } from 'node:crypto';
import { addAbortListener } from 'node:events';
import { CATALOG } from '../../functions/catalog.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { ListenError } from '../adapters/health-server.ts';
import { type PageServer, type PageServerOptions, startPageServer } from '../adapters/page-server.ts';
import { systemClock } from '../adapters/system-clock.ts';
import { PageView } from '../domain/page-view.ts';
import type { PageControls, PagePast } from '../ports/page-source.ts';
import { type PageSources, watchPage } from '../runtime/watch-page.ts';
import { StartError } from './errors.ts';
import { type BindAddress, bindAddress } from './option-kinds.ts';

export type ServePageOptions = {
  readonly bind: BindAddress;
  /** Where somebody has that port already, any free one will do. */
  readonly orFreePort?: boolean;
  /** Demanded of who looks. Left out: one is made where others than this machine could look. */
  readonly token?: string;
  readonly sources: Pick<PageSources, 'live' | 'notices' | 'feed' | 'statistics'>;
  readonly controls?: PageControls;
  readonly past?: PagePast;
  readonly signal: AbortSignal;
};

export type ServedPage = {
  readonly view: PageView;
  /** With the token, if one was made: nobody else knows it. One that was given stays where it came from. */
  readonly url: string;
  readonly server: PageServer;
  /** Rejects if what keeps the page up to date fails for a bug. */
  readonly watching: Promise<void>;
};

const LOOPBACK = ['127.0.0.1', '::1', 'localhost'];

/** Serves the page until `signal` aborts. @throws StartError where it cannot listen */
export async function servePage(options: ServePageOptions): Promise<ServedPage> {
  try {
    return await serve(options);
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    throw new StartError(`--ui-bind-address ${bindAddress.format(options.bind)}: ${error.message}`, { cause: error });
  }
}

/** @throws ListenError */
async function serve(options: ServePageOptions): Promise<ServedPage> {
  const { sources, signal, controls, past, orFreePort = false } = options;
  const { readPageFiles } = await import('./page-files.ts');
  const { host = '::', port } = options.bind;
  const isLocal = LOOPBACK.includes(host);
  const made = options.token !== undefined || isLocal ? undefined : randomBytes(16).toString('hex');
  const token = options.token ?? made;
  const view = new PageView();
  const page: Omit<PageServerOptions, 'bind'> = {
    files: await readPageFiles(),
    source: view,
    clock: systemClock,
    ...(controls && { controls }),
    ...(past && { past }),
    guard: {
      controlToken: randomBytes(16).toString('hex'),
      ...(token !== undefined && { token }),
      ...(isLocal && { hosts: [] }),
    },
    version: packageJson.version,
  };
  const server = await startPageServer({ ...page, bind: { host, port } }).catch((error) => {
    if (!orFreePort || !(error instanceof ListenError) || error.code !== 'EADDRINUSE') throw error;
    return startPageServer({ ...page, bind: { host, port: 0 } });
  });
  const functions = CATALOG.flatMap(({ manifest }) =>
    'consumers' in manifest ? [{ name: manifest.name, consumers: manifest.consumers }] : [],
  );
  const watching = watchPage(view, { ...sources, clock: systemClock, functions }, signal);
  addAbortListener(signal, () => void server.close());
  const shownHost = host === '::' || host === '0.0.0.0' ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  const url = `http://${shownHost}:${server.port}/${made === undefined ? '' : `?token=${made}`}`;
  return { view, url, server, watching };
}
