import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { promisify } from 'node:util';
import { describe, test } from 'vitest';
import { ALL_NAMES, readPart, type ServerName } from '../../infra/servers/catalog.ts';
import { findServer, howToGet } from '../../infra/servers/find.ts';
import { findOnPath } from '../../infra/servers/process.ts';

/** What a suite on real parts may need of its machine, servers apart. */
export type MachineNeed = keyof typeof machineNeeds;

/** A server that is found or built, or a property of the machine. */
export type Need = ServerName | MachineNeed;

/** One thing that is not there: what, and how to get it. */
export interface MissingPart {
  readonly need: Need;
  readonly remedy: string;
}

const run = promisify(execFile);

/** Each resolves if the need is met; what it throws otherwise does not matter, the remedy does. */
const machineNeeds = {
  root: {
    probe: async () => assertTrue(process.getuid?.() === 0),
    remedy: 'run the tests as root (sudo -E npm test)',
  },
  netns: {
    probe: async () => {
      const name = `wgk-probe-${process.pid}`;
      await run('ip', ['netns', 'add', name]);
      await run('ip', ['netns', 'delete', name]);
    },
    remedy: 'needs Linux, root, CAP_SYS_ADMIN and iproute2 (apt-get install iproute2; containers: --privileged)',
  },
  tun: {
    probe: () => access('/dev/net/tun', constants.R_OK | constants.W_OK),
    remedy: 'needs /dev/net/tun (modprobe tun; containers: --device /dev/net/tun --cap-add NET_ADMIN)',
  },
  'wireguard-go': {
    probe: () => onPath('wireguard-go', 'wg'),
    remedy: 'apt-get install wireguard-go wireguard-tools',
  },
  nft: {
    probe: () => run('unshare', ['--net', 'nft', 'list', 'ruleset']),
    remedy: 'apt-get install nftables, and root',
  },
  cc: { probe: () => onPath('cc'), remedy: 'apt-get install gcc' },
  go: { probe: () => onPath('go'), remedy: 'install Go and put its bin folder on PATH (apt-get install golang-go)' },
  curl: { probe: () => onPath('curl'), remedy: 'apt-get install curl' },
  openssl: { probe: () => onPath('openssl'), remedy: 'apt-get install openssl' },
  tcpdump: { probe: () => onPath('tcpdump'), remedy: 'apt-get install tcpdump' },
  editcap: { probe: () => onPath('editcap'), remedy: 'apt-get install wireshark-common' },
  faketime: { probe: () => onPath('faketime'), remedy: 'apt-get install faketime libfaketime' },
  chromium: { probe: () => onPath('chromium'), remedy: 'apt-get install chromium' },
} as const satisfies Record<string, { probe: () => Promise<unknown>; remedy: string }>;

/** Which of the needs this machine lacks; a server that is missing is built first, if Go is there. */
export async function missingParts(needs: readonly Need[]): Promise<MissingPart[]> {
  const missing: MissingPart[] = [];
  for (const need of needs) {
    const remedy = isServer(need) ? await missingServer(need) : await missingOfMachine(need);
    if (remedy !== undefined) missing.push({ need, remedy });
  }
  return missing;
}

/**
 * `describe` for suites that drive real parts: `await describeReal('NATS event bus', ['nats-server'], () => { … })`.
 * Where a need is missing it skips the suite and says loudly why and how to run it; with `CI` set it fails instead.
 */
export async function describeReal(name: string, needs: readonly Need[], suite: () => void): Promise<void> {
  const missing = await missingParts(needs);
  if (missing.length === 0) {
    describe(name, suite);
    return;
  }
  const why = missing.map(({ need, remedy }) => `  ${need}: ${remedy}`).join('\n');
  if (isCi()) {
    describe(name, () => {
      test('has its real parts', () => {
        throw new Error(`CI must run this suite, and this machine lacks:\n${why}`);
      });
    });
    return;
  }
  console.warn(`SKIPPED: suite "${name}" runs on real parts, and this machine lacks:\n${why}`);
  describe.skip(`${name} [lacks ${missing.map(({ need, remedy }) => `${need}: ${remedy}`).join('; ')}]`, suite);
}

/** Whether nothing may be left out: `CI` is set, and not to 0 or false. */
export function isCi(): boolean {
  const ci = process.env.CI;
  return ci !== undefined && !['', '0', 'false'].includes(ci);
}

function isServer(need: Need): need is ServerName {
  return (ALL_NAMES as readonly string[]).includes(need);
}

async function missingServer(name: ServerName): Promise<string | undefined> {
  try {
    return (await findServer(name)) === undefined ? howToGet(await readPart(name)) : undefined;
  } catch (error) {
    return (error as Error).message; // a build that failed says itself what to do
  }
}

async function missingOfMachine(need: MachineNeed): Promise<string | undefined> {
  const { probe, remedy } = machineNeeds[need];
  return probe().then(
    () => undefined,
    () => remedy,
  );
}

async function onPath(...commands: readonly string[]): Promise<void> {
  for (const command of commands) assertTrue((await findOnPath(command)) !== undefined);
}

function assertTrue(condition: boolean): void {
  if (!condition) throw new Error('not so');
}
