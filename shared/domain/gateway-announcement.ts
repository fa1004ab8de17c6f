import { GATEWAY_MODES, type GatewayMode } from './tunnel-interface.ts';

/** A gateway run says what it is before it says anything else. */

export const GATEWAY_TYPE = 'wg-keepalive.gateway.v1';

export type GatewayAnnouncement = {
  readonly namespace: string;
  /** Name of the Connection, `gw-<gateway name>`. */
  readonly connection: string;
  readonly gatewayName: string;
  readonly gatewayUid?: string;
  readonly mode: GatewayMode;
  readonly remoteClusterId: string;
  /** The tunnels configured, in index order. */
  readonly interfaces: readonly string[];
  /** Absent on a run's first announcement: its GATEWAYS sequence *is* the epoch. */
  readonly epoch?: number;
  /** RFC 3339; a label. */
  readonly announcedAt: string;
};

export const gatewayAnnouncementSchema = {
  $id: GATEWAY_TYPE,
  type: 'object',
  properties: {
    namespace: { type: 'string', minLength: 1, maxLength: 253 },
    connection: { type: 'string', minLength: 1, maxLength: 253 },
    gatewayName: { type: 'string', minLength: 1, maxLength: 253 },
    gatewayUid: { type: 'string', minLength: 1, maxLength: 128 },
    mode: { enum: GATEWAY_MODES },
    remoteClusterId: { type: 'string', minLength: 1, maxLength: 253 },
    interfaces: {
      type: 'array',
      minItems: 1,
      maxItems: 64,
      uniqueItems: true,
      items: { type: 'string', minLength: 1, maxLength: 128 },
    },
    epoch: { type: 'integer', minimum: 1 },
    announcedAt: { type: 'string', minLength: 20, maxLength: 40 },
  },
  required: ['namespace', 'connection', 'gatewayName', 'mode', 'remoteClusterId', 'interfaces', 'announcedAt'],
} as const;

/** How a function takes one: of this type and shape, and about the Connection that its subject names. */
export const gatewayAnnouncementContract = {
  type: GATEWAY_TYPE,
  schema: gatewayAnnouncementSchema,
  about: ({ namespace, connection }: GatewayAnnouncement) => [namespace, connection],
} as const;
