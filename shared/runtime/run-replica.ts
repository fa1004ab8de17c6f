import type { FunctionSettings } from '../domain/function-settings.ts';
import type { FunctionPorts } from '../ports/function-ports.ts';
import type { Notices } from '../ports/notices.ts';
import type { FunctionDefinition } from './define-function.ts';
import type { WorkerDefinition } from './define-worker.ts';
import { meteredStore } from './metered-store.ts';
import { ReplicaTally, reportReplica } from './replica-reporter.ts';
import { runFunction } from './run-function.ts';

/** By which name a replica tells pages what it handles, and how. */
export type Reporting = { readonly replica: string; readonly notices: Notices };

/**
 * Runs one replica of whatever the catalog lists, until `signal` aborts and what was in work is settled.
 *
 * @param reporting - left out: it reports nothing
 */
export async function runReplica(
  definition: FunctionDefinition | WorkerDefinition,
  ports: FunctionPorts,
  settings: FunctionSettings,
  signal: AbortSignal,
  reporting?: Reporting,
): Promise<void> {
  const { name } = definition.manifest;
  const tally = new ReplicaTally(ports.meter);
  const own: FunctionPorts = {
    ...ports,
    meter: tally,
    log: ports.log.child({ fn: name }),
    connections: meteredStore(ports.connections, ports.meter, name),
  };
  if ('run' in definition) return definition.run(own, settings, signal);
  const { clock } = ports;
  await Promise.all([
    runFunction(definition, own, settings, signal),
    reporting && reportReplica({ function: name, replica: reporting.replica }, tally, { ...reporting, clock }, signal),
  ]);
}
