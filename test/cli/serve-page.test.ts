import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { EmbeddedBroker } from '../../shared/adapters/embedded-broker.ts';
import { EmbeddedBus } from '../../shared/adapters/embedded-bus.ts';
import { EmbeddedBusStatistics } from '../../shared/adapters/embedded-bus-statistics.ts';
import { EmbeddedChangeFeed } from '../../shared/adapters/embedded-change-feed.ts';
import { EmbeddedKubernetes } from '../../shared/adapters/embedded-kubernetes.ts';
import { EmbeddedNotices } from '../../shared/adapters/embedded-notices.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { StartError } from '../../shared/cli/errors.ts';
import { type ServePageOptions, servePage } from '../../shared/cli/serve-page.ts';

const TOKEN = 't'.repeat(32);

/** Serves it for the time of a look. */
async function served<Result>(
  options: Pick<ServePageOptions, 'bind'> & Partial<ServePageOptions>,
  look: (url: string) => Promise<Result>,
): Promise<Result> {
  const clock = systemClock;
  const broker = new EmbeddedBroker({ clock });
  const stop = new AbortController();
  const { url, watching } = await servePage({
    signal: stop.signal,
    sources: {
      live: new EmbeddedBus(broker, clock),
      notices: new EmbeddedNotices(broker),
      statistics: new EmbeddedBusStatistics(broker),
      feed: new EmbeddedChangeFeed(new EmbeddedKubernetes({ clock, newUid: () => 'uid' })),
    },
    ...options,
  });
  try {
    return await look(url);
  } finally {
    stop.abort();
    await watching;
  }
}

const statusOf = async (url: string) => (await fetch(url, { redirect: 'manual' })).status;

describe('the address of the page', () => {
  it('has no token where nobody but this machine may look', async () => {
    await served({ bind: { host: '127.0.0.1', port: 0 } }, async (url) => {
      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
      expect(await statusOf(url)).toBe(200);
    });
  });

  it('has the token that was made for others', async () => {
    await served({ bind: { host: '0.0.0.0', port: 0 } }, async (url) => {
      expect(url).toMatch(/^http:\/\/localhost:\d+\/\?token=[0-9a-f]{32}$/);
      expect(await statusOf(url)).toBe(303);
      expect(await statusOf(new URL('/', url).href)).toBe(401);
    });
  });

  it.each(['127.0.0.1', '0.0.0.0'])('keeps the token to itself that came from elsewhere (%s)', async (host) => {
    await served({ bind: { host, port: 0 }, token: TOKEN }, async (url) => {
      expect(url).not.toContain(TOKEN);
      expect(await statusOf(url)).toBe(401);
      expect(await statusOf(`${url}?token=${TOKEN}`)).toBe(303);
    });
  });

  it('that somebody has is given up for a free port only where any will do', async () => {
    await using taken = createServer();
    await once(taken.listen(0, '127.0.0.1'), 'listening');
    const bind = { host: '127.0.0.1', port: (taken.address() as AddressInfo).port };
    await expect(served({ bind }, statusOf)).rejects.toThrow(StartError);
    expect(await served({ bind, orFreePort: true }, statusOf)).toBe(200);
  });

  it('that this machine does not have is refused by its name, though any port will do', async () => {
    const bind = { host: '192.0.2.1', port: 8088 };
    await expect(served({ bind, orFreePort: true }, statusOf)).rejects.toThrow(
      /^--ui-bind-address 192\.0\.2\.1:8088: .*EADDRNOTAVAIL/,
    );
  });
});
