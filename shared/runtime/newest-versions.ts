import { type Connection, isNewerResourceVersion } from '../domain/connection.ts';
import { BoundedMap } from './bounded-map.ts';

/** Objects that are remembered; forgetting one costs at most one needless judgement. */
const MAX_REMEMBERED = 10_000;

/** The newest resourceVersion of each object that something is known of, by uid. */
export type NewestVersions = {
  /** Whether a version newer than that of `object` is known. */
  supersede(object: Pick<Connection, 'metadata'>): boolean;
  /** Whether the version of `object`, or a newer one, is known. */
  cover(object: Pick<Connection, 'metadata'>): boolean;
  /** Takes the object's version unless a newer one is known. */
  note(object: Pick<Connection, 'metadata'>): void;
};

export function newestVersions(): NewestVersions {
  const versions = new BoundedMap<string, string>(MAX_REMEMBERED);
  return {
    supersede({ metadata: { uid, resourceVersion } }) {
      const newest = versions.get(uid);
      return newest !== undefined && isNewerResourceVersion(newest, resourceVersion);
    },
    cover({ metadata: { uid, resourceVersion } }) {
      const newest = versions.get(uid);
      return newest !== undefined && !isNewerResourceVersion(resourceVersion, newest);
    },
    note({ metadata: { uid, resourceVersion } }) {
      const known = versions.get(uid);
      if (known !== undefined && !isNewerResourceVersion(resourceVersion, known)) return;
      versions.set(uid, resourceVersion);
    },
  };
}
