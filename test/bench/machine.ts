import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { cpus, getPriority, loadavg, release, totalmem, type } from 'node:os';
import { promisify } from 'node:util';
import type { Machine } from './result.ts';

const run = promisify(execFile);
const root = new URL('../../', import.meta.url);

/** SCHED_FIFO and SCHED_RR, as sched_setscheduler(2) numbers them. */
const REAL_TIME_POLICIES = ['1', '2'];
/** Place of the policy behind the name in /proc/PID/stat, see proc_pid_stat(5). */
const POLICY_FIELD = 41 - 3;

export function describeMachine(): Omit<Machine, 'loadAtEnd'> {
  const all = cpus();
  return {
    cpu: all[0]?.model.trim() ?? 'unknown',
    cores: all.length,
    memoryBytes: totalmem(),
    system: `${type()} ${release()}`,
    loadAtStart: loadNow(),
    niceness: getPriority(),
    isRealTime: isRealTime(),
  };
}

function isRealTime(): boolean {
  if (type() !== 'Linux') return false;
  const stat = readFileSync('/proc/self/stat', 'utf8');
  const behindName = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
  return REAL_TIME_POLICIES.includes(behindName[POLICY_FIELD] ?? '');
}

/** Load average of the last minute. */
export function loadNow(): number {
  return Number((loadavg()[0] ?? 0).toFixed(2));
}

/** Of what is measured; the real parts have theirs in `infra/servers/<name>/go.mod`. */
export async function readVersions(): Promise<Readonly<Record<string, string>>> {
  const { version } = JSON.parse(await readFile(new URL('package.json', root), 'utf8')) as { readonly version: string };
  const parts = [
    ['nats-server', 'github.com/nats-io/nats-server/v2'],
    ['etcd', 'go.etcd.io/etcd/server/v3'],
    ['kube-apiserver', 'k8s.io/kubernetes'],
  ] as const;
  const ofParts = parts.map(async ([name, module]) => {
    const goMod = await readFile(new URL(`infra/servers/${name}/go.mod`, root), 'utf8');
    return [name, goMod.match(new RegExp(`${module.replaceAll('.', '\\.')} v(\\S+)`))?.[1] ?? 'unknown'] as const;
  });
  const commit = run('git', ['describe', '--always', '--dirty'], { cwd: root }).then(
    ({ stdout }) => stdout.trim(),
    () => 'unknown',
  );
  return {
    ...{ 'wg-keepalive': version, commit: await commit, node: process.versions.node },
    ...Object.fromEntries(await Promise.all(ofParts)),
  };
}
