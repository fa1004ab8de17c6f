import type { Connection, ConnectionSpec, DesiredConnection, OwnerReference } from './connection.ts';

/**
 * What connection-ensure has to write so that `live` is as desired: its labels, owner references and spec in full,
 * those of others kept. `undefined` where nothing differs, so that an equal object costs no write.
 */
export function mendConnection(live: Connection, desired: DesiredConnection): DesiredConnection | undefined {
  const labels = { ...live.metadata.labels, ...desired.metadata.labels };
  const owners = live.metadata.ownerReferences ?? [];
  const wanted = desired.metadata.ownerReferences;
  const same =
    wantedLabelsAreThere(live, desired) &&
    wanted.every((owner) => owners.some((other) => isSameOwner(owner, other))) &&
    isSameSpec(live.spec, desired.spec);
  if (same) return undefined;
  const { namespace, name } = live.metadata;
  // A namesake under another uid is the gateway's predecessor: the garbage collector would follow it.
  const foreign = owners.filter((owner) => !wanted.some((other) => isNamesake(owner, other)));
  return {
    metadata: { namespace, name, labels, ownerReferences: [...foreign, ...wanted] },
    spec: desired.spec,
  };
}

function wantedLabelsAreThere(live: Connection, desired: DesiredConnection): boolean {
  return Object.entries(desired.metadata.labels).every(([label, value]) => live.metadata.labels?.[label] === value);
}

function isSameOwner(wanted: OwnerReference, live: OwnerReference): boolean {
  return (
    wanted.uid === live.uid &&
    wanted.apiVersion === live.apiVersion &&
    wanted.kind === live.kind &&
    wanted.name === live.name &&
    live.controller !== true
  );
}

function isNamesake(owner: OwnerReference, wanted: OwnerReference): boolean {
  return owner.uid === wanted.uid || (owner.kind === wanted.kind && owner.name === wanted.name);
}

/** Keys of the reference that we do not know (a uid, where the gateway was not told its own) are others' to set. */
function isSameSpec(live: ConnectionSpec, desired: ConnectionSpec): boolean {
  const wanted = Object.entries(desired.gatewayRef) as [keyof ConnectionSpec['gatewayRef'], string | undefined][];
  const isSameGateway = wanted.every(([key, value]) => value === undefined || live.gatewayRef[key] === value);
  return live.type === desired.type && isSameGateway;
}
