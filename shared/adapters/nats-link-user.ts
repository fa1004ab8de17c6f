import type { NatsConnection } from 'nats';

/** Who uses the link. Each is told of what is so already when it attaches. */
export type LinkUser = {
  /** There is a connection: a new one, on which nothing is subscribed yet. */
  up?(connection: NatsConnection): void;
  /** It is gone: requests on their way will get no answer. */
  down?(reason: string): void;
  /** The server refused something, such as a subject that the user may not publish to. */
  refused?(error: Error): void;
};

/** What a user needs of the link. */
export type LinkToUse = {
  /** @throws BusError `unavailable` while there is none */
  readonly connection: NatsConnection;
  attach(user: LinkUser): void;
};
