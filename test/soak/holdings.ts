import { readdir, readFile, readlink } from 'node:fs/promises';

/** What a process holds of the machine. */
export type Holdings = { readonly sockets: number; readonly residentMib: number };

/** @throws Error with code ENOENT if it is gone */
export async function holdingsOf(pid: number): Promise<Holdings> {
  const folder = `/proc/${pid}/fd`;
  const targets = await Promise.all((await readdir(folder)).map((fd) => readlink(`${folder}/${fd}`).catch(() => '')));
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return {
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

/** What grew beyond measure, each as a line. */
export function grown(before: ReadonlyMap<string, Holdings>, after: ReadonlyMap<string, Holdings>): string[] {
  return [...after].flatMap(([name, now]) => {
    const then = before.get(name);
    if (then === undefined) return [];
    const faults: string[] = [];
    const grace = SERVERS.includes(name) ? after.size : SOCKET_GRACE;
    if (now.sockets > then.sockets + grace) faults.push(`${name}: ${then.sockets} sockets became ${now.sockets}`);
    if (now.residentMib > then.residentMib * MEMORY_FACTOR + MEMORY_GRACE_MIB) {
      faults.push(`${name}: ${then.residentMib.toFixed()} MiB became ${now.residentMib.toFixed()}`);
    }
    return faults;
  });
}
