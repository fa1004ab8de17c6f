import type { FunctionDefinition } from '../shared/runtime/define-function.ts';
import type { WorkerDefinition } from '../shared/runtime/define-worker.ts';
import { connectionAggregate } from './connection-aggregate/handler.ts';
import { connectionEnsure } from './connection-ensure/handler.ts';
import { connectionWatch } from './connection-watch/worker.ts';
import { gatewaySilence } from './gateway-silence/handler.ts';
import { tunnelStatus } from './tunnel-status/handler.ts';

/**
 * Every function behind the gateways, in the order of the data path. ping-sender and ping-receiver come before these:
 * they live in the gateway's own process.
 *
 *     observation ─▶ tunnel-status ─▶ connection-watch ─▶ connection-aggregate
 *                    announcement, change ─▶ connection-ensure      silence ─▶ gateway-silence
 */
export const CATALOG: readonly (FunctionDefinition | WorkerDefinition)[] = [
  tunnelStatus,
  connectionWatch,
  connectionAggregate,
  connectionEnsure,
  gatewaySilence,
];
