import { type CloudEvent, encodeCloudEvent } from '../domain/cloud-event.ts';
import type { ConnectionRef } from '../domain/connection.ts';
import { GATEWAY_TYPE, type GatewayAnnouncement } from '../domain/gateway-announcement.ts';
import { OBSERVATION_TYPE, type Observation } from '../domain/observation.ts';
import { Outbox, type OutboxEntry } from '../domain/outbox.ts';
import { formatRfc3339Ms } from '../domain/rfc3339-nanos.ts';
import type { Sighting } from '../domain/sighting.ts';
import { gatewaySubject, observationSubject } from '../domain/subjects.ts';
import type { Clock, Timer } from '../ports/clock.ts';
import { BusError, type BusErrorCode, type EventBus } from '../ports/event-bus.ts';

/** Publishes that wait for their acks at once. */
export const WINDOW = 512;
const PUBLISH_TIMEOUT_MS = 5_000;
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 2_000;

/** What the gateway is; the epoch and the label are added when it is said. */
export type GatewayIdentity = Omit<GatewayAnnouncement, 'epoch' | 'announcedAt' | 'interfaces'>;

type Ports = {
  readonly bus: EventBus;
  readonly clock: Clock;
  /** A publish failed and will be repeated. */
  readonly onFailure: (code: BusErrorCode, error: Error) => void;
};

/**
 * Brings what the gateway has seen to the bus, in order and with the same ids however often it takes. First the
 * announcement, whose sequence in its stream becomes the run's epoch; every observation is stamped with it when it is
 * sent. After a failure everything waits, then one message goes ahead of the others.
 */
export class OutboxSender {
  readonly #identity: GatewayIdentity;
  readonly #runId: string;
  readonly #ports: Ports;
  readonly #outbox = new Outbox();
  readonly #source: string;
  #interfaces: readonly string[];
  #epoch: number | undefined;
  /** Counts what has to be announced; equal to the count of what was announced when nothing is left to say. */
  #announcementsDue = 1;
  #announcementsMade = 0;
  #isAnnouncing = false;
  #onItsWay = 0;
  /** Of publishes at once: one after a failure, the window after a success. */
  #limit = 1;
  #retryMs = FIRST_RETRY_MS;
  #retry: Timer | undefined;
  #isClosed = false;
  #refusal: string | undefined;
  #onIdle: (() => void) | undefined;
  readonly #stopListening: () => void;

  constructor(identity: GatewayIdentity, runId: string, interfaces: readonly string[], ports: Ports) {
    this.#identity = identity;
    this.#runId = runId;
    this.#interfaces = interfaces;
    this.#ports = ports;
    this.#source = `/gateways/${encodeURIComponent(identity.namespace)}/${encodeURIComponent(identity.gatewayName)}`;
    this.#stopListening = ports.bus.onHealthChange((health) => {
      if (!health.connected) return;
      if (this.#epoch !== undefined) this.#announcementsDue += 1; // it may have come back without its streams
      this.#resume();
    });
    this.#pump();
  }

  /** The fencing token of this run; `undefined` until the bus has stored its announcement. */
  get epoch(): number | undefined {
    return this.#epoch;
  }

  /** Why the last publish failed; `undefined` once one has succeeded again. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  get depth(): number {
    return this.#outbox.depth;
  }

  get coalesced(): number {
    return this.#outbox.coalesced;
  }

  get superseded(): number {
    return this.#outbox.superseded;
  }

  add(sightings: readonly Sighting[]): void {
    if (this.#isClosed) return;
    for (const sighting of sightings) this.#outbox.add(sighting);
    this.#pump();
  }

  /** Says which tunnels there are now; goes out before anything that is added from here on. */
  announce(interfaces: readonly string[]): void {
    this.#interfaces = interfaces;
    this.#announcementsDue += 1;
    this.#pump();
  }

  /**
   * Waits until everything is stored, at most `timeoutMs`, and then gives up.
   *
   * @returns how many observations the bus has not acknowledged
   */
  async close(timeoutMs: number): Promise<number> {
    const deadline = new AbortController();
    const { promise: idle, resolve } = Promise.withResolvers<void>();
    this.#onIdle = resolve;
    this.#retryMs = FIRST_RETRY_MS;
    this.#resume();
    const late = this.#ports.clock.sleep(timeoutMs, deadline.signal).catch(() => {});
    if (!this.#isIdle()) await Promise.race([idle, late]);
    deadline.abort();
    this.#isClosed = true;
    this.#retry?.cancel();
    this.#stopListening();
    return this.#outbox.depth;
  }

  #isIdle(): boolean {
    return this.#outbox.depth === 0 && this.#announcementsMade === this.#announcementsDue;
  }

  #resume(): void {
    this.#retry?.cancel();
    this.#retry = undefined;
    this.#pump();
  }

  #pump(): void {
    if (this.#isClosed || this.#retry !== undefined) return;
    if (this.#announcementsMade < this.#announcementsDue) {
      this.#announceNow();
      if (this.#epoch === undefined) return;
    }
    while (this.#onItsWay < this.#limit && this.#retry === undefined) {
      const entry = this.#outbox.take();
      if (entry === undefined) break;
      this.#send(entry, this.#epoch as number);
    }
    if (this.#isIdle()) this.#onIdle?.();
  }

  #announceNow(): void {
    if (this.#isAnnouncing) return;
    this.#isAnnouncing = true;
    const number = this.#announcementsDue;
    const epoch = this.#epoch;
    const announcedAt = formatRfc3339Ms(this.#ports.clock.unixMs());
    const data: GatewayAnnouncement = {
      ...{ ...this.#identity, interfaces: this.#interfaces, announcedAt },
      ...(epoch === undefined ? {} : { epoch }),
    };
    const event = { id: `${this.#runId}.gateway.${number}`, source: this.#source, type: GATEWAY_TYPE, data };
    this.#publish(gatewaySubject(this.#ref()), { ...event, time: announcedAt }).then(
      (sequence) => {
        this.#isAnnouncing = false;
        this.#epoch ??= sequence;
        this.#announcementsMade = number;
        this.#succeed();
      },
      (error: unknown) => {
        this.#isAnnouncing = false;
        this.#fail(error);
      },
    );
  }

  #send(entry: OutboxEntry, gatewayEpoch: number): void {
    const { observedAtUnixMs, ...sighting } = entry.sighting;
    const { interfaceId, sequence } = sighting;
    const { namespace, connection } = this.#identity;
    const observedAt = formatRfc3339Ms(observedAtUnixMs);
    const data: Observation = {
      ...{ namespace, connection, gatewayEpoch, ...sighting, observedAt },
      ...(entry.coalesced === 0 ? {} : { coalesced: entry.coalesced }),
    };
    const id = `${this.#runId}.${interfaceId}.${sequence}`;
    const event = { id, source: this.#source, type: OBSERVATION_TYPE, time: observedAt, data };
    this.#onItsWay += 1;
    this.#publish(observationSubject(this.#ref(), interfaceId), event).then(
      () => {
        this.#onItsWay -= 1;
        this.#outbox.stored(entry);
        this.#succeed();
      },
      (error: unknown) => {
        this.#onItsWay -= 1;
        this.#outbox.failed(entry);
        this.#fail(error);
      },
    );
  }

  async #publish(subject: string, event: CloudEvent): Promise<number> {
    const ack = await this.#ports.bus.publish(encodeCloudEvent(subject, event), { timeoutMs: PUBLISH_TIMEOUT_MS });
    return ack.sequence;
  }

  #succeed(): void {
    this.#refusal = undefined;
    this.#limit = WINDOW;
    this.#retryMs = FIRST_RETRY_MS;
    this.#pump();
  }

  #fail(error: unknown): void {
    if (this.#isClosed) return;
    this.#limit = 1;
    this.#refusal = (error as Error).message;
    const code = error instanceof BusError ? error.code : 'unavailable';
    this.#ports.onFailure(code, error as Error);
    if (this.#retry !== undefined) return;
    this.#retry = this.#ports.clock.after(this.#retryMs, () => this.#resume());
    this.#retryMs = Math.min(2 * this.#retryMs, LONGEST_RETRY_MS);
  }

  #ref(): ConnectionRef {
    return { namespace: this.#identity.namespace, name: this.#identity.connection };
  }
}
