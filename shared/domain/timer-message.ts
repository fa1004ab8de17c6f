import { type BusMessage, type CloudEvent, encodeCloudEvent } from './cloud-event.ts';
import type { ConnectionRef } from './connection.ts';
import { dueSubject, timerSubject } from './subjects.ts';

/** A timer of a Connection as the bus takes it; what comes of it is an event of a function of its own. */
export type TimerMessage = {
  readonly message: BusMessage;
  /** Unix ms, the bus server's. */
  readonly dueAtUnixMs: number;
  readonly target: string;
};

/** What a timer is for, as its subject says. */
export type TimerOf = 'silent' | 'ensure' | 'aggregate';

export function timerMessage(
  what: TimerOf,
  connection: ConnectionRef,
  dueAtUnixMs: number,
  event: CloudEvent,
): TimerMessage {
  const message = encodeCloudEvent(timerSubject(what, connection), event);
  return { message, dueAtUnixMs, target: dueSubject(what, connection) };
}
