import type { FunctionSettings } from '../domain/function-settings.ts';
import type { FunctionPorts } from '../ports/function-ports.ts';
import type { FunctionManifest } from './define-function.ts';

/** A function that is not called by an event: it turns something else into events until `signal` aborts. */
export type WorkerDefinition = {
  readonly manifest: Pick<FunctionManifest, 'name' | 'summary' | 'needs'>;
  readonly run: (ports: FunctionPorts, settings: FunctionSettings, signal: AbortSignal) => Promise<void>;
};

export function defineWorker(definition: WorkerDefinition): WorkerDefinition {
  return definition;
}
