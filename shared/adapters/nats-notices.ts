import type { Subscription } from 'nats';
import type { BusMessage } from '../domain/cloud-event.ts';
import type { Notices } from '../ports/notices.ts';
import type { NatsLink } from './nats-link.ts';
import type { LinkUser } from './nats-link-user.ts';
import { fromHeaders, toHeaders } from './nats-message.ts';

/** {@link Notices} by core NATS: below JetStream, at most once. */
export class NatsNotices implements Notices {
  readonly #link: NatsLink;

  constructor(link: NatsLink) {
    this.#link = link;
  }

  tell({ subject, headers, data }: BusMessage): void {
    if (this.#link.isUp) this.#link.connection.publish(subject, data, { headers: toHeaders(headers) });
  }

  hear(filter: string, onMessage: (message: BusMessage) => void, signal: AbortSignal): void {
    if (signal.aborted) return;
    let subscription: Subscription | undefined;
    const user: LinkUser = {
      up: (connection) => {
        subscription = connection.subscribe(filter, {
          callback: (error, { subject, headers, data }) => {
            if (!error) onMessage({ subject, headers: fromHeaders(headers), data });
          },
        });
      },
    };
    this.#link.attach(user);
    const stop = () => {
      this.#link.detach(user);
      subscription?.unsubscribe();
    };
    signal.addEventListener('abort', stop, { once: true });
  }
}
