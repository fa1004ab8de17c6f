import { setTimeout as sleep } from 'node:timers/promises';
import { CATALOG } from '../../functions/catalog.ts';
import { LAB_GATEWAYS } from '../../infra/lab/lab.ts';
import type { RealLab } from '../../infra/lab/real-lab.ts';
import type { RunningServer } from '../../infra/servers/running-server.ts';
import { formatDuration } from '../../shared/domain/duration.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import type { Random } from '../simulation/random.ts';
import type { NatsKeys } from './nats-keys.ts';

/** What is struck. */
export type Arena = {
  readonly lab: RealLab;
  /** Of all who use the lab's NATS. */
  readonly keys: NatsKeys;
  readonly tunnels: number;
};

/** What is done to a lab, for how long, and how it ends; `end` leaves everything as it was. */
export type Blow = {
  readonly name: string;
  readonly lastsMs: number;
  readonly begin: () => Promise<void>;
  readonly end: () => Promise<void>;
};

type BlowMaker = (arena: Arena, random: Random) => Blow;

const nothing = async () => {};
const HOUR_MS = 3_600_000;
const functionNames = CATALOG.map(({ manifest }) => manifest.name);

/** Chance picks among these; what hits tunnels is there twice, as it makes the transitions that the rest endangers. */
const BLOWS: readonly BlowMaker[] = [
  cutTunnels,
  cutTunnels,
  refuseToSend,
  killReplica,
  killReplica,
  freezeReplica,
].concat([
  killGateway,
  freezeGateway,
  killNats,
  freezeNats,
  killApi,
  freezeApi,
  slowApi,
  stepClock,
  rotateToken,
  rotateKeys,
]);

export function nextBlow(arena: Arena, random: Random): Blow {
  return random.pick(BLOWS)(arena, random);
}

/** Begins and ends a blow; it ends also where it is cut short. */
export async function strike({ begin, end, lastsMs }: Blow, signal: AbortSignal): Promise<void> {
  try {
    await begin();
    await sleep(lastsMs, undefined, { signal }).catch(nothing);
  } finally {
    await end();
  }
}

/** Some short enough to go unseen, some long enough to fail. */
function cutTunnels({ lab, tunnels }: Arena, random: Random): Blow {
  const chosen = someTunnels(random, tunnels);
  return {
    ...{ name: `cut ${chosen.join(', ')}`, lastsMs: random.integer(500, 20_000) },
    begin: () => each(chosen, (interfaceId) => lab.cut(interfaceId)),
    end: () => each(chosen, (interfaceId) => lab.restore(interfaceId)),
  };
}

function refuseToSend({ lab, tunnels }: Arena, random: Random): Blow {
  const chosen = someTunnels(random, tunnels);
  return {
    ...{ name: `EPERM on ${chosen.join(', ')}`, lastsMs: random.integer(1_000, 20_000) },
    begin: () => each(chosen, (interfaceId) => lab.network.cutInside(interfaceId)),
    end: () => each(chosen, (interfaceId) => lab.restore(interfaceId)),
  };
}

function killReplica({ lab }: Arena, random: Random): Blow {
  const name = random.pick(functionNames);
  return { name: `SIGKILL a replica of ${name}`, lastsMs: 0, begin: () => lab.crash(name), end: nothing };
}

function freezeReplica({ lab }: Arena, random: Random): Blow {
  const name = random.pick(functionNames);
  return freeze(`a replica of ${name}`, random.pick(lab.processesOf(name)), random.integer(1_000, 15_000));
}

function killGateway({ lab }: Arena, random: Random): Blow {
  const { mode } = random.pick(LAB_GATEWAYS);
  return { name: `SIGKILL gateway ${mode}`, lastsMs: 0, begin: () => lab.restartGateway(mode), end: nothing };
}

function freezeGateway({ lab }: Arena, random: Random): Blow {
  const { mode } = random.pick(LAB_GATEWAYS);
  return freeze(`gateway ${mode}`, random.pick(lab.processesOf(mode)), random.integer(500, 15_000));
}

function killNats({ lab }: Arena, random: Random): Blow {
  return {
    ...{ name: 'SIGKILL nats-server', lastsMs: random.integer(0, 15_000) },
    begin: () => lab.setNats(false),
    end: () => lab.setNats(true),
  };
}

function freezeNats({ lab }: Arena, random: Random): Blow {
  return freeze('nats-server', random.pick(lab.nats.servers), random.integer(500, 10_000));
}

function killApi({ lab: { api } }: Arena, random: Random): Blow {
  return {
    ...{ name: 'SIGKILL kube-apiserver', lastsMs: random.integer(0, 15_000) },
    begin: () => api.kill(),
    end: () => api.restart(),
  };
}

function freezeApi({ lab }: Arena, random: Random): Blow {
  return freeze('kube-apiserver', lab.api, random.integer(500, 15_000));
}

function slowApi({ lab }: Arena, random: Random): Blow {
  const delayMs = random.integer(100, 3_000);
  return {
    ...{ name: `${formatDuration(delayMs)} more a call of the API`, lastsMs: random.integer(2_000, 15_000) },
    begin: () => lab.slowApi(delayMs),
    end: () => lab.slowApi(0),
  };
}

function stepClock({ lab }: Arena, random: Random): Blow {
  const byMs = random.pick([-HOUR_MS, HOUR_MS, -1_537, 1_537]);
  return {
    ...{ name: `wall clocks of the gateways by ${formatDuration(byMs)}`, lastsMs: random.integer(2_000, 15_000) },
    begin: () => lab.stepClock(byMs),
    end: () => lab.stepClock(-byMs),
  };
}

function rotateToken({ lab }: Arena): Blow {
  return {
    name: 'another token for the functions, the old one revoked',
    lastsMs: 0,
    begin: () => lab.rotateToken(),
    end: nothing,
  };
}

/** As it goes in a cluster: the server closes the connections of the old keys, and the files of the parts follow later. */
function rotateKeys({ lab, keys }: Arena, random: Random): Blow {
  return {
    ...{ name: 'other NATS keys for all, the old ones revoked, their files late', lastsMs: random.integer(0, 15_000) },
    begin: async () => {
      await keys.renew();
      await each(lab.nats.servers, (server) => server.kill('SIGHUP'));
    },
    end: () => keys.handOut(),
  };
}

function freeze(what: string, process: RunningServer, lastsMs: number): Blow {
  return {
    ...{ name: `SIGSTOP ${what}`, lastsMs },
    begin: () => process.kill('SIGSTOP'),
    end: () => process.kill('SIGCONT'),
  };
}

function someTunnels(random: Random, tunnels: number): string[] {
  const chosen = new Set(Array.from({ length: random.integer(1, 4) }, () => random.integer(0, tunnels - 1)));
  return [...chosen].map(interfaceIdOf);
}

async function each<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  await Promise.all(items.map(work));
}
