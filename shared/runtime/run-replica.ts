import type { FunctionSettings } from '../domain/function-settings.ts';
import type { FunctionPorts } from '../ports/function-ports.ts';
import type { FunctionDefinition } from './define-function.ts';
import type { WorkerDefinition } from './define-worker.ts';
import { meteredStore } from './metered-store.ts';
import { runFunction } from './run-function.ts';

/** Runs one replica of whatever the catalog lists, until `signal` aborts and what was in work is settled. */
export function runReplica(
  definition: FunctionDefinition | WorkerDefinition,
  ports: FunctionPorts,
  settings: FunctionSettings,
  signal: AbortSignal,
): Promise<void> {
  const { name } = definition.manifest;
  const own: FunctionPorts = {
    ...ports,
    log: ports.log.child({ fn: name }),
    connections: meteredStore(ports.connections, ports.meter, name),
  };
  return 'run' in definition ? definition.run(own, settings, signal) : runFunction(definition, own, settings, signal);
}
