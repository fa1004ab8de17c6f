import { parentPort, workerData } from 'node:worker_threads';
import { type EngineCommand, engineMessageOf } from '../adapters/engine-thread.ts';
import { systemClock } from '../adapters/system-clock.ts';
import { UdpSockets } from '../adapters/udp-sockets.ts';
import type { EngineOptions } from '../ports/ping-engine.ts';
import { engineOn } from './ping-engine.ts';

/** Entry of the engine's thread; it ends by itself once it has stopped, as nothing keeps it alive then. */
const port = parentPort;
if (port === null) throw new Error('engine-main is the entry of a worker thread, not a program');

const startEngine = engineOn({ sockets: new UdpSockets(), clock: systemClock });
const engine = startEngine(workerData as EngineOptions, (report) => port.postMessage(...engineMessageOf(report)));

port.on('message', async (command: EngineCommand) => {
  if (command.kind === 'tunnels') {
    engine.setTunnels(command.tunnels);
  } else {
    await engine.stop();
    port.close();
  }
});
