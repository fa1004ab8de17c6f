import { aggregate, sameAggregate } from '../../shared/domain/aggregate.ts';
import { decodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { TunnelEntry } from '../../shared/domain/connection.ts';
import type { Decision } from '../../shared/domain/decision.ts';
import type { Observation, TunnelEvent } from '../../shared/domain/observation.ts';
import { GATEWAY_SILENT } from '../../shared/domain/tunnel-status.ts';
import type { StoredMessage } from '../../shared/ports/event-bus.ts';
import { isGatewayLabel, type SimulatedGateway } from './simulated-gateway.ts';
import type { World, Write } from './world.ts';

/** What must hold of every run, whatever went wrong in it. Each gives the violations it found. */

/** At rest, what is shown is what the gateway that counts observed last. */
export function statusIsLastObservation(world: World, gateway: SimulatedGateway): string[] {
  const entries = new Map((world.connection()?.status?.tunnels ?? []).map((entry) => [entry.interfaceID, entry]));
  const violations: string[] = [];
  for (const [interfaceId, value] of gateway.values()) {
    const shown = entries.get(interfaceId)?.value;
    if (shown !== value) violations.push(`${interfaceId} shows ${shown}, its last observation says ${value}`);
    entries.delete(interfaceId);
  }
  for (const interfaceId of entries.keys()) violations.push(`${interfaceId} is listed and not configured`);
  return violations;
}

/** Nobody takes a gateway that speaks for a silent one, whatever is away in between. */
export function noGatewayIsSilent(messages: readonly StoredMessage[]): string[] {
  return messages.flatMap((message) =>
    tunnelEventOf(message).flatMap((event) =>
      event.kind === 'silent'
        ? [`${event.interfaceId} was told silent at ${message.storedAtUnixMs}: ${event.message}`]
        : [],
    ),
  );
}

/** A gateway that stopped long ago leaves no tunnel as it was. */
export function silenceIsShown(world: World): string[] {
  const tunnels = world.connection()?.status?.tunnels ?? [];
  return tunnels.flatMap(({ interfaceID, value, reason }) =>
    value === 'Error' && reason === GATEWAY_SILENT
      ? []
      : [`${interfaceID} shows ${value} (${reason}), its gateway is silent`],
  );
}

/** At rest, the aggregate is the function of the tunnels that it claims to be. */
export function aggregateIsExact(world: World): string[] {
  const connection = world.connection();
  if (connection === undefined) return ['there is no Connection'];
  const { status, metadata } = connection;
  const expected = aggregate(status?.tunnels ?? [], status, metadata);
  return sameAggregate(status, expected)
    ? []
    : [`aggregate is ${JSON.stringify({ ...status, tunnels: undefined })}, want ${JSON.stringify(expected)}`];
}

/** No write shows an older observation after a newer one; labels of the simulated gateways are an order. */
export function neverOlderOverNewer(writes: readonly Write[]): string[] {
  const newest = new Map<string, string>();
  const violations: string[] = [];
  for (const { tunnel, uid, by, atMs } of writes) {
    if (tunnel === undefined || by !== 'tunnel-status') continue;
    const label = labelOf(tunnel);
    if (label === undefined) continue;
    const key = `${uid} ${tunnel.interfaceID}`;
    const before = newest.get(key);
    if (before !== undefined && label < before) {
      violations.push(`${key}: at ${atMs} ms ${label} was written after ${before}`);
    }
    newest.set(key, label);
  }
  return violations;
}

/**
 * No observation is shown that came after a newer one of its tunnel, be it that the newer one was only throttled. Counted
 * anew from each listing on: what came before it was nobody's.
 */
export function neverOvertaken(messages: readonly StoredMessage[], writes: readonly Write[]): string[] {
  const newest = new Map<string, Observation>();
  const late = new Set<string>();
  for (const event of messages.flatMap(tunnelEventOf)) {
    if (event.kind === 'listed') newest.delete(event.interfaceId);
    if (!('sequence' in event)) continue;
    const before = newest.get(event.interfaceId);
    if (before === undefined || orderOf(event, before) >= 0) newest.set(event.interfaceId, event);
    else late.add(`${event.interfaceId} ${event.observedAt}`);
  }
  return writes.flatMap(({ tunnel, by, atMs }) => {
    if (tunnel === undefined || by !== 'tunnel-status') return [];
    const shown = `${tunnel.interfaceID} ${labelOf(tunnel)}`;
    return late.has(shown) ? [`${shown}, which came after a newer one, was written at ${atMs} ms`] : [];
  });
}

function orderOf(a: Observation, b: Observation): number {
  return a.gatewayEpoch - b.gatewayEpoch || a.sequence - b.sequence;
}

function tunnelEventOf(message: StoredMessage): TunnelEvent[] {
  return tunnelEventWithId(message).map(({ data }) => data);
}

function tunnelEventWithId(message: StoredMessage): { readonly id: string; readonly data: TunnelEvent }[] {
  const decoded = decodeCloudEvent(message);
  return 'error' in decoded ? [] : [{ id: decoded.event.id, data: decoded.event.data as TunnelEvent }];
}

function labelOf({ latency, lastTransitionTime }: TunnelEntry): string | undefined {
  return [latency?.timestamp, lastTransitionTime].filter(isGatewayLabel).toSorted().at(-1);
}

/** Every transition that the stream holds was written, in its order, and no other; before a tunnel is listed it is nobody's. */
export function transitionsInOrder(messages: readonly StoredMessage[], writes: readonly Write[]): string[] {
  const listed = new Set<string>();
  const told = valuesByInterface(
    messages.flatMap(tunnelEventOf).flatMap((event) => {
      if (event.kind === 'listed') listed.add(event.interfaceId);
      if (!listed.has(event.interfaceId)) return [];
      if (event.kind === 'silent') return [[event.interfaceId, 'Error'] as const];
      return 'value' in event && event.value !== 'Connecting' ? [[event.interfaceId, event.value] as const] : [];
    }),
  );
  const written = valuesByInterface(
    writes.flatMap(({ tunnel, by }) =>
      tunnel !== undefined && by === 'tunnel-status' ? [[tunnel.interfaceID, tunnel.value] as const] : [],
    ),
  );
  return [...told].flatMap(([interfaceId, values]) => {
    const actual = written.get(interfaceId)?.join(' ') ?? '';
    return actual === values.join(' ') ? [] : [`${interfaceId}: written ${actual}, told ${values.join(' ')}`];
  });
}

/**
 * Every transition told after the first write of a tunnel was written, or is counted as one that the API did not take and
 * another took the place of.
 */
export function transitionsAccountedFor(
  messages: readonly StoredMessage[],
  writes: readonly Write[],
  decisions: readonly Decision[],
): string[] {
  const observations = messages.flatMap(tunnelEventWithId).flatMap(({ id, data }) => {
    return 'value' in data && data.value !== 'Connecting' ? [{ ...data, id }] : [];
  });
  const ofTunnels = Map.groupBy(decisions, ({ interfaceId }) => interfaceId);
  return [...ofTunnels].flatMap(([interfaceId, own]) => {
    const first = own.findIndex(({ outcome }) => outcome === 'written');
    const told = observations.filter((event) => event.interfaceId === interfaceId);
    if (first === -1) return [];
    const at = told.findIndex(({ id }) => id === own[first]?.eventId);
    const [base, ...later] = told.slice(at);
    if (at === -1 || base === undefined) return [`${interfaceId}: ${own[first]?.eventId} was written and never told`];
    const changes = changesOf([base, ...later]);
    const shown = writes.flatMap(({ tunnel, by }) =>
      by === 'tunnel-status' && tunnel !== undefined && tunnel.interfaceID === interfaceId ? [tunnel] : [],
    );
    const written = changesOf([base, ...shown.filter((tunnel) => (labelOf(tunnel) ?? '') > base.observedAt)]);
    const superseded = own.slice(first + 1).reduce((sum, decision) => sum + unwritten(decision), 0);
    // More may be counted: of two writes whose answers were lost, nobody can tell that both were done.
    return changes <= written + superseded
      ? []
      : [`${interfaceId}: ${changes} transitions told, ${written} written, ${superseded} superseded`];
  });
}

/**
 * Each write has its decision, or one that says that nobody knows whether it was done, whatever died in between. Who comes to
 * tell it after the Connection is gone finds nothing to tell it by.
 */
export function writesAreTold(
  world: World,
  messages: readonly StoredMessage[],
  decisions: readonly Decision[],
): string[] {
  const { uid: present } = world.connection()?.metadata ?? {};
  const told = new Set(
    decisions.filter(({ outcome }) => outcome === 'written' || outcome === 'failed').map(({ eventId }) => eventId),
  );
  const ids = new Map(
    messages.flatMap(tunnelEventWithId).map(({ id, data }) => [`${data.interfaceId} ${data.observedAt}`, id]),
  );
  return world.writes.flatMap(({ tunnel, by, atMs, uid }) => {
    const label = tunnel && labelOf(tunnel);
    if (label === undefined || by !== 'tunnel-status' || uid !== present) return [];
    const id = ids.get(`${tunnel?.interfaceID} ${label}`);
    return id === undefined || told.has(id) ? [] : [`${id} was written at ${atMs} ms and no decision says so`];
  });
}

/** A change back to what is shown all along needs no write, but was told like the others. */
function unwritten({ superseded = 0, reason }: Decision): number {
  return superseded > 0 && reason !== 'Transition' ? superseded + 1 : superseded;
}

function changesOf(values: readonly { readonly value?: string }[]): number {
  return values.filter(({ value }, at) => at > 0 && value !== values[at - 1]?.value).length;
}

/** Successive equal values are one. */
function valuesByInterface(values: readonly (readonly [string, string])[]): Map<string, string[]> {
  const byInterface = new Map<string, string[]>();
  for (const [interfaceId, value] of values) {
    const list = byInterface.get(interfaceId) ?? [];
    if (list.at(-1) !== value) list.push(value);
    byInterface.set(interfaceId, list);
  }
  return byInterface;
}

/**
 * What the throttle allows a tunnel: one write an update interval, and one for each change of value, each listing and
 * each gateway run.
 */
export function writesWithinBudget(
  writes: readonly Write[],
  allowed: { readonly durationMs: number; readonly updateIntervalMs: number; readonly resets: number },
): string[] {
  const budget = Math.ceil(allowed.durationMs / allowed.updateIntervalMs) + 1 + allowed.resets;
  const refreshes = new Map<string, number>();
  const shown = new Map<string, string>();
  for (const { tunnel, by } of writes) {
    if (tunnel === undefined) continue;
    const isRefresh = by === 'tunnel-status' && shown.get(tunnel.interfaceID) === tunnel.value;
    if (isRefresh) refreshes.set(tunnel.interfaceID, (refreshes.get(tunnel.interfaceID) ?? 0) + 1);
    shown.set(tunnel.interfaceID, tunnel.value);
  }
  return [...refreshes]
    .filter(([, count]) => count > budget)
    .map(([interfaceId, count]) => `${interfaceId}: ${count} refreshes, the throttle allows ${budget}`);
}

/** A tunnel that answers is not left with an old latency: the throttle puts a refresh off, it does not drop it. */
export function connectedTunnelsAreFresh(
  world: World,
  gateway: SimulatedGateway,
  atMs: number,
  oldestMs: number,
): string[] {
  return [...gateway.values()].flatMap(([interfaceId, value]) => {
    if (value !== 'Connected') return [];
    const last = world.writes.findLast(
      ({ tunnel, by }) => tunnel?.interfaceID === interfaceId && by === 'tunnel-status',
    );
    const ageMs = atMs - (last?.atMs ?? 0);
    return ageMs <= oldestMs
      ? []
      : [`${interfaceId} was last written ${Math.round(ageMs)} ms ago, at most ${oldestMs}`];
  });
}

/** Aggregate writes answer changes: never more of them than writes by others. */
export function noMoreAggregateThanOtherWrites(writes: readonly Write[], others: number): string[] {
  const aggregates = writes.filter((write) => write.aggregate !== undefined).length;
  const rest = writes.length - aggregates + others;
  return aggregates <= rest ? [] : [`${aggregates} aggregate writes for ${rest} others`];
}

/** Every entry is owned by the field manager of its own name, and by nobody else but who edited it by hand. */
export function ownedByTheirInterface(world: World, foreigners: readonly string[]): string[] {
  const managers = world.connection()?.metadata.managedFields ?? [];
  const known = new Set([
    'connection-aggregate',
    ...foreigners,
    ...(world.connection()?.status?.tunnels ?? []).map((entry) => entry.interfaceID),
  ]);
  return managers
    .filter(({ manager }) => manager !== undefined && !known.has(manager))
    .map(({ manager }) => `${manager} owns fields of the status`);
}

/** Each malformed event that was injected is kept once. */
export function deadLettersComplete(letters: number, injected: number): string[] {
  return letters === injected ? [] : [`${letters} dead letters for ${injected} malformed events`];
}
