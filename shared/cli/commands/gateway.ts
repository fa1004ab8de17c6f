import { randomUUID } from 'node:crypto';
import type { Check } from '../../adapters/health-server.ts';
import { NatsBus } from '../../adapters/nats-bus.ts';
import { systemClock } from '../../adapters/system-clock.ts';
import type { Run } from '../command-table.ts';
import { type Gateway, type GatewayOptions, startGateway } from '../gateway-run.ts';
import { natsFromOptions } from '../nats-from-options.ts';
import { pingFromOptions } from '../ping-from-options.ts';
import { busCheck, logReadiness } from '../readiness.ts';
import { runProcess } from '../run-process.ts';
import { tunnelsFromOptions } from '../tunnels-from-options.ts';

/** For what waits in the outbox when the process is told to stop. */
const FLUSH_TIMEOUT_MS = 4_000;
/** An engine that tells nothing for so long hangs, and takes no PING any more; a restart is the remedy. */
const ENGINE_TIMEOUT_MS = 15_000;

/**
 * One gateway. `/readyz` says nothing of NATS: the pod carries the tunnels themselves, and an outage of the keepalive
 * must not become one of theirs; `wg_keepalive_bus_connected` shows it instead.
 *
 * Exit code 1 if the engine died, or if observations could not be delivered at the end.
 */
export const run: Run<'gateway'> = async (options) => {
  const gatewayOptions = gatewayOptionsOf(options);
  const nats = natsFromOptions(options, { role: 'gateway', namespace: options.namespace });
  return runProcess(options, async ({ log, meter, stop, liveness }) => {
    const bus = NatsBus.open(nats, systemClock, log);
    const gateway = startGateway(gatewayOptions, { bus, meter, log, clock: systemClock });
    liveness.push(engineCheck(gateway));
    log.info({ tunnels: gatewayOptions.tunnels, settings: gatewayOptions.settings }, 'gateway starts');
    try {
      await Promise.race([
        logReadiness([busCheck(bus), observationsCheck(gateway)], { clock: systemClock, log, signal: stop }),
        gateway.failed,
      ]);
      const { unsent } = await gateway.stop(FLUSH_TIMEOUT_MS);
      return unsent > 0 ? 1 : 0;
    } finally {
      await bus.close();
    }
  });
};

/** This thread turns even if the engine's does not. */
function engineCheck(gateway: Gateway): Check {
  return {
    name: 'engine',
    check: () => {
      const silentMs = Math.round(gateway.silentMs());
      return silentMs < ENGINE_TIMEOUT_MS ? { ok: true } : { ok: false, reason: `told nothing for ${silentMs} ms` };
    },
  };
}

/** A bus that answers and takes nothing, for want of a stream or of a right, must not look well. */
function observationsCheck(gateway: Gateway): Check {
  return {
    name: 'observations',
    check: () => {
      const reason = gateway.refusal() ?? (gateway.epoch() === undefined ? 'not announced yet' : undefined);
      return reason === undefined ? { ok: true } : { ok: false, reason };
    },
  };
}

function gatewayOptionsOf(options: Parameters<typeof run>[0]): GatewayOptions {
  const { namespace, name, mode, remoteClusterId, gatewayUid, pingSuspectIntervalMs } = options;
  return {
    ...{ namespace, name, mode, remoteClusterId, runId: randomUUID() },
    tunnels: tunnelsFromOptions(options),
    settings: pingFromOptions(options),
    ...(gatewayUid !== undefined && { gatewayUid }),
    ...(pingSuspectIntervalMs !== undefined && { suspectIntervalMs: pingSuspectIntervalMs }),
  };
}
