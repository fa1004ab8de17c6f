import { createPinoLogger } from '../../adapters/pino-logger.ts';
import { systemClock } from '../../adapters/system-clock.ts';
import { type ConnectionRef, connectionKey } from '../../domain/connection.ts';
import { type Explanation, explainConnection, formatExplanation } from '../../domain/explanation.ts';
import { GatewayWatch } from '../../domain/gateway-watch.ts';
import type { Bound } from '../../domain/replay-window.ts';
import { TunnelTrails } from '../../domain/tunnel-trail.ts';
import { Replay } from '../../runtime/replay.ts';
import type { Run } from '../command-table.ts';
import { StartError, UsageError } from '../errors.ts';
import { EXIT_INTERRUPTED } from '../exit-codes.ts';
import { LineOutput } from '../line-output.ts';
import { connectionRef } from '../replay-option-kinds.ts';
import { ReplayProgress } from '../replay-progress.ts';
import { openSource, type ReplaySource, reportingFaults } from '../replay-source.ts';
import { REPLAYED_FUNCTIONS } from '../replay-timeline.ts';
import { functionSettingsOf } from '../replay-variants.ts';
import { abortOnStopSignal } from '../shutdown.ts';

/** Replays the events of one Connection up to a moment and tells what made it what it was then. */
export const run: Run<'explain'> = async (options, operands) => {
  const ref = refOf(operands);
  const log = createPinoLogger({ level: options.logLevel });
  const stop = abortOnStopSignal(log);
  const { explainAt: to } = options;
  return reportingFaults(async () => {
    const window = { connection: ref, ...(to && { to }) };
    const source = await openSource({ ...options, window, follow: false, log, stop });
    try {
      for (const note of source.notes) process.stderr.write(`note: ${note}\n`);
      const explanation = await explainSource(source, ref, to, stop);
      if (explanation === undefined) return EXIT_INTERRUPTED;
      const output = new LineOutput(process.stdout);
      const lines = options.json ? [JSON.stringify(explanation)] : formatExplanation(explanation);
      for (const line of lines) output.line(line);
      await output.flush();
      return 0;
    } finally {
      await source.close();
    }
  });
};

function refOf([operand, extra]: readonly string[]): ConnectionRef {
  const want = 'want one NAMESPACE/NAME, such as liqo-tenant-rome/gw-rome';
  if (operand === undefined) throw new UsageError(`a Connection is missing: ${want}`);
  if (extra !== undefined) throw new UsageError(`${JSON.stringify(extra)}: ${want}`);
  const ref = connectionRef.parse(operand);
  if (ref === undefined) throw new UsageError(`${JSON.stringify(operand)}: ${want}`);
  return ref;
}

/** @returns `undefined` if it was stopped. @throws StartError if there is no event of the Connection */
export async function explainSource(
  source: ReplaySource,
  ref: ConnectionRef,
  explainAt: Bound | undefined,
  stop: AbortSignal,
): Promise<Explanation | undefined> {
  const [trails, watch] = [new TunnelTrails(), new GatewayWatch()];
  const settings = functionSettingsOf(source.settings);
  const { fromStreamStart } = source;
  const replay = new Replay({
    ...{ ...REPLAYED_FUNCTIONS, settings, fromStreamStart },
    onStep: (step) => trails.step(step),
  });
  const progress = new ReplayProgress(systemClock);
  for await (const batch of source.messages('OBSERVATIONS', stop)) {
    for (const message of batch) {
      if (stop.aborted) return undefined;
      trails.event(message);
      watch.event(message);
      await replay.take(message);
    }
    progress.took(batch);
  }
  progress.end();
  if (stop.aborted) return undefined;
  const { connections, events, last: asOf, missing } = replay.summary();
  const replayed = connections.find((connection) => connectionKey(connection) === connectionKey(ref));
  if (replayed === undefined) {
    const why =
      events === 0
        ? `holds no event of it${explainAt === undefined ? '' : ' up to then'}; ${await source.contents()}`
        : `holds ${events} events of it, none of which lists a tunnel: does connection-ensure run?`;
    throw new StartError(`${connectionKey(ref)}: ${source.name} ${why}`);
  }
  // Who owns what is known of now only: for another moment it would say nothing, or something wrong.
  const live = explainAt === undefined ? await ownersNow(source, ref) : undefined;
  return explainConnection(replayed, { trails, suspicions: watch.suspicions, asOf, live, missing });
}

async function ownersNow(source: ReplaySource, ref: ConnectionRef) {
  try {
    return await source.connection(ref);
  } catch (error) {
    process.stderr.write(`note: who owns which field is not known: ${(error as Error).message}\n`);
    return undefined;
  }
}
