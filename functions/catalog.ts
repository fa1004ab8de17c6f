import { STREAMS } from '../shared/domain/topology.ts';
import type { FunctionDefinition } from '../shared/runtime/define-function.ts';
import type { WorkerDefinition } from '../shared/runtime/define-worker.ts';
import { importFunctions } from './import-functions.ts';

type Definition = FunctionDefinition | WorkerDefinition;

/**
 * Every function behind the gateways. A function is a folder here, with a manifest and a handler (or a worker), and
 * nothing else names it: commands, consumers, NATS permissions, tests and the lab go by this list.
 *
 *     observation ─▶ tunnel-status ─▶ connection-watch ─▶ connection-aggregate
 *                    announcement, change ─▶ connection-ensure      silence ─▶ gateway-silence
 *
 * ping-sender and ping-receiver come before these: they live in the gateway's own process.
 */
export const CATALOG: readonly Definition[] = Object.entries(await importFunctions())
  .flatMap(([file, module]) => definitionsIn(file, module))
  .toSorted((a, b) => placeInDataPath(a) - placeInDataPath(b));

/** @throws Error where a handler's file holds no function, or one of another name than its folder's */
function definitionsIn(file: string, module: object): readonly Definition[] {
  const folder = file.split('/')[0];
  const definitions = Object.values(module).filter(isDefinition);
  if (definitions.length === 0 && file.endsWith('/handler.ts')) {
    throw new Error(`functions/${file} exports no function: export what defineFunction gives`);
  }
  for (const { manifest } of definitions) {
    if (manifest.name !== folder) {
      throw new Error(`functions/${file}: the manifest's name is "${manifest.name}", want that of the folder`);
    }
  }
  return definitions;
}

function isDefinition(exported: unknown): exported is Definition {
  if (typeof exported !== 'object' || exported === null || !('manifest' in exported)) return false;
  return 'create' in exported || 'run' in exported;
}

/** By the streams that they read from, which are in that order; who reads from none comes last. */
function placeInDataPath({ manifest }: Definition): number {
  const consumers = 'consumers' in manifest ? manifest.consumers : [];
  const places = consumers.map(({ stream }) => STREAMS.findIndex(({ name }) => name === stream));
  return Math.min(STREAMS.length, ...places);
}
