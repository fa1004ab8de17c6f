import type { Connection, PublicKey } from './connection.ts';

/** A Kubernetes watch event as connection-watch tells it on. Level-based: a newer change supersedes it. */

export const CHANGE_TYPE = 'wg-keepalive.change.v1';

/** All that functions want to know of, by the plural of the resource. */
export const CHANGE_KINDS = ['connections', 'publickeies'] as const;

export type ChangeKind = (typeof CHANGE_KINDS)[number];

type ChangeOf<Kind extends ChangeKind, Object> = {
  readonly kind: Kind;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** As the API server gave it, without managedFields and annotations; of a deletion, the last state known. */
  readonly object: Object;
};

export type Change = ChangeOf<'connections', Connection> | ChangeOf<'publickeies', PublicKey>;

const metadata = {
  type: 'object',
  properties: {
    namespace: { type: 'string', minLength: 1 },
    name: { type: 'string', minLength: 1 },
    uid: { type: 'string', minLength: 1 },
    resourceVersion: { type: 'string', pattern: '^[0-9]+$' },
  },
  required: ['namespace', 'name', 'uid', 'resourceVersion'],
} as const;

/** The API server has checked the object by the CRD's own schema; here is what the functions lean on. */
export const changeSchema = {
  $id: CHANGE_TYPE,
  type: 'object',
  properties: {
    kind: { enum: CHANGE_KINDS },
    type: { enum: ['ADDED', 'MODIFIED', 'DELETED'] },
    object: {
      type: 'object',
      properties: { metadata, spec: { type: 'object' }, status: { type: 'object' } },
      required: ['metadata'],
    },
  },
  required: ['kind', 'type', 'object'],
} as const;
