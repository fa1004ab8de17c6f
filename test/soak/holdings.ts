import { readdir, readFile, readlink } from 'node:fs/promises';

/** What a process holds of the machine. `name`: what it does, as others may do, too. */
export type Holdings = {
  readonly name: string;
  readonly pid: number;
  readonly sockets: number;
  readonly residentMib: number;
};

/** @throws Error with code ENOENT if it is gone */
export async function holdingsOf(name: string, pid: number): Promise<Holdings> {
  const folder = `/proc/${pid}/fd`;
  const targets = await Promise.all((await readdir(folder)).map((fd) => readlink(`${folder}/${fd}`).catch(() => '')));
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return {
    ...{ name, pid },
    sockets: targets.filter((target) => target.startsWith('socket:')).length,
    residentMib: Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1_024,
  };
}

/** A garbage collector keeps what it may need again; a leak of half an hour is more than this. */
const MEMORY_GRACE_MIB = 64;
const MEMORY_FACTOR = 1.5;
/** A call on its way now and then; the server at the other end has one such of each process. */
const SOCKET_GRACE = 3;
const SERVERS = ['nats-server', 'kube-apiserver'];

/** What is to be held against: the same process, or what one in its place held most of, where that was killed since. */
export function counterpart(before: readonly Holdings[], { name, pid }: Holdings): Holdings | undefined {
  const alike = before.filter((then) => then.name === name);
  return alike.find((then) => then.pid === pid) ?? alike.toSorted((a, b) => b.residentMib - a.residentMib)[0];
}

/** What grew beyond measure, each as a line. */
export function grown(before: readonly Holdings[], after: readonly Holdings[]): string[] {
  return after.flatMap((now) => {
    const { name, pid } = now;
    const then = counterpart(before, now);
    if (then === undefined) return [];
    const faults: string[] = [];
    const grace = SERVERS.includes(name) ? after.length : SOCKET_GRACE;
    if (now.sockets > then.sockets + grace)
      faults.push(`${name} ${pid}: ${then.sockets} sockets became ${now.sockets}`);
    if (now.residentMib > then.residentMib * MEMORY_FACTOR + MEMORY_GRACE_MIB) {
      faults.push(`${name} ${pid}: ${then.residentMib.toFixed()} MiB became ${now.residentMib.toFixed()}`);
    }
    return faults;
  });
}
