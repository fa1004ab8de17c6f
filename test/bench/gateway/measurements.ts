import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { requireServer } from '../../../infra/servers/find.ts';
import { median } from '../statistics.ts';
import { type BenchNetwork, openBenchNetwork, type Side } from './bench-network.ts';
import { capturedRoundTrips } from './capture.ts';
import { MeasuredProcess } from './measured-process.ts';
import type { SubjectConfig, SubjectReport } from './subject-process.ts';

/** How many tunnels are probed how often. */
export type Load = { readonly tunnels: number; readonly intervalMs: number };

const SENDER = '0a1b2c3d';
const NATS_PORT = 14_222;
const NATS_URL = `nats://127.0.0.1:${NATS_PORT}`;
const WARM_UP_MS = 3_000;
/** Code that runs this seldom takes longer to become what it will be. */
const SLOW_WARM_UP_MS = 8_000;
const FLOOD_WINDOW = '128';
/** The kernel hands over what it has captured once a second at least. */
const CAPTURE_FLUSH_MS = 1_200;
const LEAST_ANSWERED = 0.99;
/** Round trips at the end that only one of gateway and capture has seen. */
const MOST_UNDER_WAY = 2;

/** `deviationMs`: the latest verdict after its deadline. `recoveryMs`: median, from the peer's return to Connected. */
export type Outage = { readonly deviationMs: number; readonly recoveryMs: number };
type FloorReport = { readonly sent: number; readonly received: number; readonly rttP99Us: number };
type Reported = readonly { readonly interfaceId: string; readonly rttNs: number; readonly minRttNs: number }[];

/** Each measures the gateway on side 1 of the network against the floor on side 2, or the floor itself on both. */
export class Measurements implements AsyncDisposable {
  readonly #network: BenchNetwork;
  #runs = 0;

  private constructor(network: BenchNetwork) {
    this.#network = network;
  }

  static async prepare(): Promise<Measurements> {
    return new Measurements(await openBenchNetwork());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#network.close();
  }

  /** CPU time of all its threads, in ms, for 1,000 PINGs sent and PONGs measured. */
  async cpuPerThousand(who: 'floor' | 'gateway' | 'gateway and NATS', load: Load, durationMs: number): Promise<number> {
    const { tunnels, intervalMs } = load;
    await using nats = await this.#nats(who === 'gateway and NATS');
    await using responder = await this.#start(2, this.#network.floor, ['respond', '2', `${tunnels}`]);
    await using subject =
      who === 'floor'
        ? await this.#start(1, this.#network.floor, ['ping', '1', `${tunnels}`, `${intervalMs * 1_000}`, '3600'])
        : await this.#startGateway({ ...load, ...(nats.isUp && { natsUrl: NATS_URL }) });
    await sleep(intervalMs < 1_000 ? WARM_UP_MS : SLOW_WARM_UP_MS);
    const before = await subject.sample();
    await sleep(durationMs);
    const after = await subject.sample();
    await responder.ended('SIGTERM');
    return (1_000 * (after.cpuMs - before.cpuMs)) / (after.received - before.received);
  }

  /** PONGs answered in a second of CPU time: what one core can do, whatever else the machine does meanwhile. */
  async answersPerCpuSecond(who: 'floor' | 'gateway', durationMs: number): Promise<number> {
    await using responder =
      who === 'floor'
        ? await this.#start(1, this.#network.floor, ['respond', '1', '1'])
        : await this.#startGateway({ tunnels: 1, intervalMs: 2_000 });
    const flood = (seconds: number) => this.#start(2, this.#network.floor, ['flood', '2', FLOOD_WINDOW, `${seconds}`]);
    await using warmUp = await flood(WARM_UP_MS / 1_000);
    await warmUp.ended();
    const beforeMs = await responder.cpuMs();
    await using flooder = await flood(durationMs / 1_000);
    const { received } = await flooder.ended<FloorReport>();
    return (1_000 * received) / ((await responder.cpuMs()) - beforeMs);
  }

  /** How far the least of 8 round trips is from that in a capture of the device, 99th percentile, µs. */
  async rttErrorP99Us(busyShare: number, durationMs: number): Promise<number> {
    const run = `${++this.#runs}`;
    const rttFile = join(this.#network.folder, `rtt-${run}.json`);
    const pcapFile = join(this.#network.folder, `capture-${run}.pcap`);
    await using responder = await this.#start(2, this.#network.floor, ['respond', '2', '8']);
    await using tcpdump = await this.#capture(pcapFile);
    await using subject = await this.#startGateway({ tunnels: 8, intervalMs: 20, busyShare, rttFile });
    await sleep(durationMs);
    await subject.ended('SIGTERM');
    await responder.ended('SIGTERM');
    await tcpdump.stop();
    const reported = JSON.parse(await readFile(rttFile, 'utf8')) as Reported;
    return errorP99Us(reported, await capturedRoundTrips(pcapFile, SENDER));
  }

  /** 99th percentile of the round trips that the peer measures, µs, while NATS answers or does not. */
  async remoteRttP99Us(bus: 'answers' | 'is stopped', durationMs: number): Promise<number> {
    await using nats = await this.#nats(true);
    await using subject = await this.#startGateway({ tunnels: 8, intervalMs: 100, natsUrl: NATS_URL });
    await sleep(WARM_UP_MS);
    if (bus === 'is stopped') nats.freeze();
    const args = ['ping', '2', '8', '10000', `${durationMs / 1_000}`];
    await using pinger = await this.#start(2, this.#network.floor, args);
    const { sent, received, rttP99Us } = await pinger.ended<FloorReport>();
    nats.thaw();
    // Round trips of those that were answered alone would tell nothing of a gateway that stands still.
    if (received < LEAST_ANSWERED * sent)
      throw new Error(`${received} of ${sent} PINGs were answered while NATS ${bus}`);
    await subject.ended('SIGTERM');
    return rttP99Us;
  }

  /** Resident memory of the whole process after `durationMs`, MiB. */
  async residentMib(load: Load, durationMs: number): Promise<number> {
    await using responder = await this.#start(2, this.#network.floor, ['respond', '2', `${load.tunnels}`]);
    await using subject = await this.#startGateway(load);
    await sleep(durationMs);
    const mib = await subject.residentMib();
    await responder.ended('SIGTERM');
    return mib;
  }

  /** The peer ends, all tunnels become Error, and it comes back. */
  async outage(load: Load, lossThreshold: number): Promise<Outage> {
    const args = ['respond', '2', `${load.tunnels}`];
    await using subject = await this.#startGateway({ ...load, lossThreshold });
    const windowMs = load.intervalMs * lossThreshold;
    {
      await using _peer = await this.#start(2, this.#network.floor, args);
      await sleep(WARM_UP_MS + load.intervalMs);
    }
    await sleep(2 * windowMs + 1_000);
    await using _peer = await this.#start(2, this.#network.floor, args);
    const backAtUnixMs = Date.now();
    await sleep(1_000 + load.intervalMs);
    const { transitions, deviationsMs } = await subject.ended<SubjectReport>('SIGTERM');
    const recoveriesMs = transitions
      .filter(({ value, atUnixMs }) => value === 'Connected' && atUnixMs >= backAtUnixMs)
      .map(({ atUnixMs }) => atUnixMs - backAtUnixMs);
    const failed = transitions.filter(({ value }) => value === 'Error').length;
    if (Math.min(failed, recoveriesMs.length) < load.tunnels) {
      throw new Error(`of ${load.tunnels} tunnels ${failed} became Error and ${recoveriesMs.length} came back in time`);
    }
    return { deviationMs: Math.max(...deviationsMs), recoveryMs: median(recoveriesMs) };
  }

  #startGateway(config: Omit<SubjectConfig, 'lossThreshold'> & Partial<SubjectConfig>): Promise<MeasuredProcess> {
    const lossThreshold = config.lossThreshold ?? (config.intervalMs < 100 ? 100 : 5);
    return this.#start(1, process.execPath, [this.#network.subject, JSON.stringify({ ...config, lossThreshold })]);
  }

  #start(side: Side, command: string, args: readonly string[]): Promise<MeasuredProcess> {
    return MeasuredProcess.start(this.#network.namespaces[side], command, args);
  }

  #spawn(side: Side, command: string, args: readonly string[], stderr: 'pipe' | 'ignore'): ChildProcess {
    const line = this.#network.namespaces[side].commandLine(command, args);
    return spawn(line.command, line.args, { stdio: ['ignore', 'ignore', stderr] });
  }

  /** Everything on the device, into a file that is whole once it is stopped. */
  async #capture(file: string) {
    const args = ['-i', 'bench', '-w', file, '--time-stamp-precision=nano', '-B', '8192', '-Z', 'root', 'udp'];
    const tcpdump = this.#spawn(1, 'tcpdump', args, 'pipe');
    const closed = once(tcpdump, 'close');
    await untilSaid(tcpdump.stderr as NodeJS.ReadableStream, 'listening on');
    return {
      stop: async () => {
        await sleep(CAPTURE_FLUSH_MS);
        tcpdump.kill();
        await closed;
      },
      [Symbol.asyncDispose]: async () => {
        tcpdump.kill('SIGKILL');
        await closed;
      },
    };
  }

  /** A nats-server on the loopback device of the gateway's side, if it is wanted. */
  async #nats(isWanted: boolean) {
    const server = isWanted ? await this.#spawnNats() : undefined;
    return {
      isUp: isWanted,
      freeze: () => server?.kill('SIGSTOP'),
      thaw: () => server?.kill('SIGCONT'),
      [Symbol.asyncDispose]: async () => {
        if (server === undefined) return;
        server.kill('SIGKILL');
        await once(server, 'exit');
      },
    };
  }

  async #spawnNats(): Promise<ChildProcess> {
    const store = join(this.#network.folder, `nats-${++this.#runs}`);
    await mkdir(store);
    const config = join(import.meta.dirname, '../../../infra/nats/server.conf');
    const args = ['-c', config, '-a', '127.0.0.1', '-p', `${NATS_PORT}`, '-m', `${NATS_PORT + 1}`, '-sd', store];
    return this.#spawn(1, await requireServer('nats-server'), args, 'ignore');
  }
}

/** @throws Error with what was said instead, if the stream ends before */
async function untilSaid(stream: NodeJS.ReadableStream, words: string): Promise<void> {
  const said: string[] = [];
  for await (const line of createInterface({ input: stream })) {
    said.push(line);
    if (!line.includes(words)) continue;
    stream.resume();
    return;
  }
  throw new Error(`want "${words}", not: ${said.join('; ')}`);
}

/** Every PING was answered, so the n-th round trip of a tunnel is the n-th in the capture. */
function errorP99Us(reported: Reported, captured: ReadonlyMap<string, number[]>): number {
  const errors: number[] = [];
  for (const [interfaceId, roundTrips] of captured) {
    const ours = reported.filter((sample) => sample.interfaceId === interfaceId);
    const apart = roundTrips.length - ours.length;
    if (Math.abs(apart) > MOST_UNDER_WAY) {
      throw new Error(`${interfaceId}: ${ours.length} round trips measured, ${roundTrips.length} captured`);
    }
    for (let index = 8; index < Math.min(ours.length, roundTrips.length); index++) {
      const least = Math.min(...roundTrips.slice(index - 7, index + 1));
      errors.push(Math.abs((ours[index]?.minRttNs ?? 0) - least) / 1e3);
    }
  }
  errors.sort((a, b) => a - b);
  return errors[Math.floor(errors.length * 0.99)] ?? Number.NaN;
}
