import type { ConnectionRef, ConnectionValue } from './connection.ts';

/** What a gateway saw of one tunnel, and the control events that share its subject so that their order decides. */

export const OBSERVATION_TYPE = 'wg-keepalive.observation.v1';

/** A round trip longer than this is not a measurement. */
export const MAX_RTT_NS = 60_000_000_000;

type Tunnel = {
  readonly namespace: string;
  readonly connection: string;
  readonly interfaceId: string;
};

/**
 * Carries level, not only edges: `value` is what the gateway holds of the tunnel now.
 * Order is (gatewayEpoch, sequence), whatever the order of delivery.
 */
export type Observation = Tunnel & {
  /** Fencing token of the gateway run: the GATEWAYS sequence of its first announcement. */
  readonly gatewayEpoch: number;
  /** Per interface, from 1. */
  readonly sequence: number;
  /** Monotonic, since the run began: the only time that a decision may use. */
  readonly monotonicMs: number;
  readonly kind: 'pong' | 'miss' | 'down' | 'unmonitored';
  readonly value: ConnectionValue;
  /** RFC 3339; a label. */
  readonly observedAt: string;
  /** Pong only. */
  readonly rttNs?: number;
  readonly minRttNs?: number;
  readonly consecutiveMisses?: number;
  /** How many unchanged observations this one stands for besides itself. */
  readonly coalesced?: number;
  readonly reason?: string;
  readonly message?: string;
};

/** From connection-ensure: the Connection lists this tunnel; observations of it count from here on. */
export type Listed = Tunnel & {
  readonly kind: 'listed';
  readonly connectionUid: string;
  readonly gatewayEpoch: number;
  readonly observedAt: string;
};

/** From connection-ensure: the Connection no longer lists this tunnel. */
export type Unlisted = Tunnel & {
  readonly kind: 'unlisted';
  readonly gatewayEpoch: number;
  readonly observedAt: string;
};

/** From gateway-silence: nothing was heard of the gateway run `gatewayEpoch` for too long. */
export type Silent = Tunnel & {
  readonly kind: 'silent';
  readonly gatewayEpoch: number;
  readonly observedAt: string;
  readonly message?: string;
};

export type TunnelEvent = Observation | Listed | Unlisted | Silent;

export function connectionOf(event: Tunnel): ConnectionRef {
  return { namespace: event.namespace, name: event.connection };
}

const tunnel = {
  namespace: { type: 'string', minLength: 1, maxLength: 253 },
  connection: { type: 'string', minLength: 1, maxLength: 253 },
  interfaceId: { type: 'string', minLength: 1, maxLength: 128 },
  gatewayEpoch: { type: 'integer', minimum: 1 },
  observedAt: { type: 'string', minLength: 20, maxLength: 40 },
} as const;
const common = ['namespace', 'connection', 'interfaceId', 'kind', 'gatewayEpoch', 'observedAt'];

/** JSON Schema (draft 2020-12) of {@link TunnelEvent}; unknown fields are ignored, unknown kinds refused. */
export const tunnelEventSchema = {
  $id: OBSERVATION_TYPE,
  type: 'object',
  required: ['kind'],
  discriminator: { propertyName: 'kind' },
  oneOf: [
    {
      properties: {
        ...tunnel,
        kind: { enum: ['pong', 'miss', 'down', 'unmonitored'] },
        sequence: { type: 'integer', minimum: 1 },
        monotonicMs: { type: 'number', minimum: 0 },
        value: { enum: ['Connected', 'Connecting', 'Error'] },
        rttNs: { type: 'integer', minimum: 1, maximum: MAX_RTT_NS },
        minRttNs: { type: 'integer', minimum: 1, maximum: MAX_RTT_NS },
        consecutiveMisses: { type: 'integer', minimum: 0 },
        coalesced: { type: 'integer', minimum: 0 },
        reason: { type: 'string', maxLength: 256 },
        message: { type: 'string', maxLength: 4096 },
      },
      required: [...common, 'sequence', 'monotonicMs', 'value'],
      if: { properties: { kind: { const: 'pong' } } },
      // biome-ignore lint/suspicious/noThenProperty: a JSON Schema keyword
      then: { required: ['rttNs'] },
      else: { properties: { rttNs: false } },
    },
    {
      properties: { ...tunnel, kind: { const: 'listed' }, connectionUid: { type: 'string', minLength: 1 } },
      required: [...common, 'connectionUid'],
    },
    { properties: { ...tunnel, kind: { const: 'unlisted' } }, required: common },
    {
      properties: { ...tunnel, kind: { const: 'silent' }, message: { type: 'string', maxLength: 4096 } },
      required: common,
    },
  ],
} as const;

/** How a function takes one: of this type and shape, and about the tunnel that its subject names. */
export const tunnelEventContract = {
  type: OBSERVATION_TYPE,
  schema: tunnelEventSchema,
  about: ({ namespace, connection, interfaceId }: TunnelEvent) => [namespace, connection, interfaceId],
} as const;
