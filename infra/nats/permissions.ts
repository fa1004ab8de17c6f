import { CATALOG } from '../../functions/catalog.ts';
import type { BusUser } from '../../shared/domain/bus-user.ts';
import { inboxPrefixOf } from '../../shared/domain/bus-user.ts';
import { encodeToken } from '../../shared/domain/subject-token.ts';
import { replicaSubject } from '../../shared/domain/subjects.ts';
import type { ConsumerSpec, StreamName } from '../../shared/domain/topology.ts';
import { STATE_BUCKET } from '../../shared/domain/topology.ts';

/**
 * Who may say and hear what on NATS: the one table that accounts, Secrets and tests come from. All else is refused.
 *
 * What NATS cannot hold back: the answer to a request goes to the reply subject that the request names, unchecked. An
 * answer is the server's text (an acknowledgement) or a copy of a stored message, so it can disturb, but says nothing new:
 * the first is no event and becomes a dead letter, the second is older than what it repeats.
 */
export type Permissions = { readonly publish: readonly string[]; readonly subscribe: readonly string[] };

/** What people look at: events of the past, what was made of them, what nobody could take. */
const PAST: readonly StreamName[] = ['OBSERVATIONS', 'GATEWAYS', 'CHANGES', 'DECISIONS', 'DEAD_LETTERS'];

/** What is said now: copies of what streams store, and replicas of themselves. */
const LIVE = ['live.>', 'replicas.*'];

/** @throws Error for a function that the catalog does not know */
export function permissionsOf(user: BusUser): Permissions {
  const answers = `${inboxPrefixOf(user)}.>`;
  switch (user.role) {
    case 'gateway': {
      const namespace = encodeToken(user.namespace);
      return { publish: [`keepalive.${namespace}.*.*`, `gateways.${namespace}.*`], subscribe: [answers] };
    }
    case 'function':
      return { publish: unique(functionsOf(user.name).flatMap(publishedBy)), subscribe: [answers] };
    case 'setup':
      return { publish: SETUP, subscribe: [answers] };
    case 'replay':
      return { publish: ['$JS.API.INFO', ...PAST.flatMap(readsOf)], subscribe: [answers] };
    case 'deadletters':
      return { publish: unique(['$JS.API.INFO', ...PAST.flatMap(readsOf), ...AGAIN]), subscribe: [answers] };
    case 'viewer':
      return { publish: INFORMATION, subscribe: [...LIVE, answers] };
    case 'page': // sees what a viewer sees, and the observations of the past
      return { publish: unique([...INFORMATION, ...readsOf('OBSERVATIONS')]), subscribe: [...LIVE, answers] };
  }
}

/** Where an event that nobody could take may have come from; and that it was published again. */
const AGAIN = ['keepalive.*.*.*', 'gateways.*.*', 'changes.*.*.*', 'due.*.*.*', 'dead.retried'];

/** Makes and mends streams and consumers, and empties GATEWAYS; neither reads nor writes a message, and deletes no stream. */
const SETUP = [
  ...['INFO', 'STREAM.CREATE.*', 'STREAM.UPDATE.*', 'STREAM.INFO.*', 'STREAM.NAMES', 'STREAM.LIST'],
  ...['STREAM.PURGE.GATEWAYS'], // the sequences of GATEWAYS must not fall behind epochs that were given out
  ...['CONSUMER.CREATE.>', 'CONSUMER.DURABLE.CREATE.*.*', 'CONSUMER.DELETE.*.*'],
  ...['CONSUMER.INFO.*.*', 'CONSUMER.NAMES.*', 'CONSUMER.LIST.*'],
].map(api);

const INFORMATION = [
  ...['INFO', 'STREAM.INFO.*', 'STREAM.NAMES', 'STREAM.LIST'],
  ...['CONSUMER.INFO.*.*', 'CONSUMER.NAMES.*', 'CONSUMER.LIST.*'],
].map(api);

function functionsOf(name: string) {
  const known = CATALOG.filter(({ manifest }) => name === 'all' || manifest.name === name);
  if (known.length === 0) throw new Error(`there is no function "${name}", so nothing that its NATS user may do`);
  return known;
}

function publishedBy({ manifest }: (typeof CATALOG)[number]): readonly string[] {
  const { needs = {} } = manifest;
  const consumers = 'consumers' in manifest ? manifest.consumers : [];
  const { name } = manifest;
  const verdicts = consumers.length > 0 ? ['decisions.*.*', `dead.${name}`, replicaSubject(name)] : [];
  return [
    ...(needs.says ?? []),
    ...verdicts,
    ...consumers.flatMap(consumes),
    ...(needs.reads ?? []).flatMap(readsOf),
    ...(needs.readsState || needs.keepsState ? READS_STATE : []),
    ...(needs.keepsState ? KEEPS_STATE : []),
  ];
}

/** Pulling and settling; and making one's own consumer again, as the topology has it, where somebody deleted it. */
function consumes({ stream, durable, filterSubjects }: ConsumerSpec): readonly string[] {
  const [only, ...more] = filterSubjects;
  // The client sends what has several filters by the older call, whose subject does not tell them.
  const create =
    only !== undefined && more.length === 0
      ? `CONSUMER.CREATE.${stream}.${durable}.${only}`
      : `CONSUMER.DURABLE.CREATE.${stream}.${durable}`;
  return [
    api(`CONSUMER.MSG.NEXT.${stream}.${durable}`),
    `$JS.ACK.${stream}.${durable}.>`,
    api(`CONSUMER.INFO.${stream}.${durable}`),
    api(`STREAM.INFO.${stream}`),
    api(create),
  ];
}

/** Direct get, which takes no message away and makes no consumer. */
function readsOf(stream: StreamName): readonly string[] {
  return [api(`STREAM.INFO.${stream}`), api(`DIRECT.GET.${stream}`), api(`DIRECT.GET.${stream}.>`)];
}

const READS_STATE = [api(`DIRECT.GET.KV_${STATE_BUCKET}.$KV.${STATE_BUCKET}.>`)];
const KEEPS_STATE = [`$KV.${STATE_BUCKET}.>`];

function api(call: string): string {
  return `$JS.API.${call}`;
}

function unique(subjects: readonly string[]): readonly string[] {
  return [...new Set(subjects)];
}
