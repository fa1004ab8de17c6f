import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Who may ask for what. The page itself comes from here, so all that it asks for has this origin. */

export const COOKIE = 'wg-keepalive-page';
export const CONTROL_HEADER = 'x-wg-keepalive-control';

export type GuardOptions = {
  /** Demanded of every request: as a cookie, which `/?token=…` sets. Absent: none is. */
  readonly token?: string;
  /** Demanded of every request that changes something. */
  readonly controlToken: string;
  /** Names beside the loopback ones under which the page may be called; absent: any. */
  readonly hosts?: readonly string[];
};

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]'];

export class PageGuard {
  readonly #options: GuardOptions;

  constructor(options: GuardOptions) {
    this.#options = options;
  }

  /** A page from elsewhere whose name resolves to this machine is told nothing. */
  isOurHost({ headers }: IncomingMessage): boolean {
    const { hosts } = this.#options;
    const name = headers.host?.replace(/:\d+$/, '');
    return name !== undefined && (hosts === undefined || [...LOOPBACK, ...hosts].includes(name));
  }

  mayLook(request: IncomingMessage): boolean {
    const { token } = this.#options;
    return token === undefined || isSame(cookieOf(request), token);
  }

  /** Whether the token that a first visit brings is the right one. */
  isToken(given: string | null): boolean {
    return this.#options.token !== undefined && isSame(given ?? undefined, this.#options.token);
  }

  /** Asked of whoever wants to change something: only our own page, which was told the token, gets that far. */
  mayChange({ headers }: IncomingMessage): boolean {
    const { origin, host } = headers;
    const given = headers[CONTROL_HEADER];
    const isOurs = origin === `http://${host}` || origin === `https://${host}`;
    return isOurs && isSame(typeof given === 'string' ? given : undefined, this.#options.controlToken);
  }
}

function cookieOf({ headers }: IncomingMessage): string | undefined {
  const cookies = (headers.cookie ?? '').split(';').map((cookie) => cookie.trim());
  const own = cookies.find((cookie) => cookie.startsWith(`${COOKIE}=`));
  return own?.slice(COOKIE.length + 1);
}

/** In a time that tells nothing of where they differ. */
function isSame(given: string | undefined, wanted: string): boolean {
  if (given === undefined) return false;
  const [a, b] = [given, wanted].map((text) => createHash('sha256').update(text).digest()) as [Buffer, Buffer];
  return timingSafeEqual(a, b);
}
