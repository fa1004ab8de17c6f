import { type RealLab, type RealLabOptions, startRealLab } from '../../infra/lab/real-lab.ts';
import { eventually } from '../support/eventually.ts';
import { silentLogger } from '../support/silent-logger.ts';

const START_LIMIT_MS = 60_000;

/** A lab on real parts, one replica a function, both of whose Connections are Connected. */
export async function startConnectedLab(options: Omit<RealLabOptions, 'log' | 'replicas'>): Promise<RealLab> {
  const lab = await startRealLab({ ...options, replicas: 1, log: silentLogger });
  const isConnected = async () => {
    const connections = await lab.connections();
    return connections.length === 2 && connections.every(({ status }) => status?.value === 'Connected');
  };
  await eventually(isConnected, 'Connected', START_LIMIT_MS).catch(async (error) => {
    await lab.stop();
    throw error;
  });
  return lab;
}
