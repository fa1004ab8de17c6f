import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { FunctionsOnRealParts } from '../support/functions-on-real-parts.ts';
import { describeReal } from '../support/real-parts.ts';
import { UdpPeer } from '../support/udp-peer.ts';
import { WgKeepalive } from '../support/wg-keepalive.ts';

const PORT = 24_514;
/** Each gateway has an address of its own and a peer of its own, as two pods of one Deployment would. */
const ADDRESSES = { first: ['127.65.0.1', '127.66.0.1'], second: ['127.65.0.2', '127.66.0.2'] } as const;
/** Blocks every thread but the main one a second after its start, for ever. */
const HANGING = `
  import { isMainThread } from 'node:worker_threads';
  if (!isMainThread) setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0), 1_000);`;

await describeReal('two gateways of one Connection', ['nats-server', 'etcd', 'kube-apiserver'], () => {
  const cleanUp = new AsyncDisposableStack();
  let parts: FunctionsOnRealParts;
  let functions: WgKeepalive;
  let namespace: string;

  beforeAll(async () => {
    parts = cleanUp.use(await FunctionsOnRealParts.start());
    functions = await (await parts.startFunctions()).untilReady();
    namespace = await parts.kubernetes.namespace();
  });
  afterAll(() => cleanUp.disposeAsync());

  async function startGateway(which: keyof typeof ADDRESSES, env: NodeJS.ProcessEnv = {}): Promise<WgKeepalive> {
    const identity = [`--namespace=${namespace}`, '--name=rome', '--mode=server', '--remote-cluster-id=milan'];
    const ping = [`--ping-port=${PORT}`, '--ping-interval=100ms', '--ping-loss-threshold=10'];
    const tunnel = `--tunnel=liqo-tunnel=${ADDRESSES[which].join()}`;
    const args = ['gateway', ...identity, ...ping, tunnel, `--nats-url=${parts.nats.url}`];
    const folder = parts.kubernetes.folder;
    return cleanUp.use(await WgKeepalive.start({ args, env: { ...process.env, ...env }, folder }));
  }

  async function startPeer(which: keyof typeof ADDRESSES): Promise<UdpPeer> {
    const peer = await UdpPeer.start({ address: ADDRESSES[which][1], port: PORT });
    cleanUp.defer(() => peer.close());
    return peer;
  }

  const shown = () => parts.connection({ namespace, name: 'gw-rome' });
  const becomes = (value: string) =>
    eventually(async () => (await shown())?.status?.tunnels?.[0]?.value === value, `${value} of the tunnel`);
  const stale = () => functions.metric('wg_keepalive_events_total', { function: 'tunnel-status', outcome: 'stale' });

  it('one is frozen, the other takes over; what the first says when it wakes changes nothing', async () => {
    const peers = { first: await startPeer('first'), second: await startPeer('second') };
    const first = await startGateway('first');
    await becomes('Connected');
    first.signal('SIGSTOP');
    peers.first.close();
    const second = await startGateway('second');
    await eventually(() => peers.second.pings > 0, 'PINGs of the second');
    await eventually(async () => (await second.metric('wg_keepalive_bus_connected')) === 1, 'the bus of the second');
    await becomes('Connected');

    const before = { stale: await stale(), writes: errorsWritten() };
    first.signal('SIGCONT');
    await eventually(async () => (await first.metric('wg_keepalive_tunnel_up')) === 0, 'the first to judge Error');
    await eventually(async () => (await stale()) >= before.stale + 20, 'events of the first to be judged stale');
    expect((await shown())?.status).toMatchObject({ value: 'Connected', tunnels: [{ value: 'Connected' }] });
    expect(errorsWritten()).toBe(before.writes);

    peers.second.close();
    await becomes('Error'); // it is the second that decides
    await eventually(() => errorsWritten() > before.writes, 'the decision');
  });

  function errorsWritten(): number {
    return parts.decisions.filter(
      ({ namespace: of, outcome, after }) =>
        of === namespace && outcome === 'written' && (after as { readonly value?: string }).value === 'Error',
    ).length;
  }

  it('one whose engine hangs says so on /healthz, though its main thread turns', async () => {
    const options = `--import=data:text/javascript,${encodeURIComponent(HANGING)}`;
    const hanging = await startGateway('first', { NODE_OPTIONS: options });
    await eventually(() => hanging.isAlive().catch(() => false), 'a live gateway');
    await eventually(async () => !(await hanging.isAlive()), 'the verdict', 60_000);
    expect(await hanging.liveness()).toMatch(/^engine: told nothing for \d+ ms$/m);
  });
});
