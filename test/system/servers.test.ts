import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdtempDisposable, readFile } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from 'nats';
import { expect, test } from 'vitest';
import { launchEtcd } from '../../infra/servers/launch-etcd.ts';
import { type KubeApiserver, launchKubeApiserver } from '../../infra/servers/launch-kube-apiserver.ts';
import { launchNats, launchNatsCluster, type NatsServer } from '../../infra/servers/launch-nats.ts';
import { findOnPath } from '../../infra/servers/process.ts';
import { describeReal } from '../support/real-parts.ts';

const timeoutMs = 120_000; // a bound, not an expectation: a machine under load is slow

await describeReal('nats-server', ['nats-server'], () => {
  test('keeps its port and its streams over a restart and over SIGKILL', { timeout: timeoutMs }, async () => {
    await using server = await launchNats();
    const firstPid = server.pid;
    await publish(server, 'kept.first');

    await server.restart();
    expect(server.pid).not.toBe(firstPid);
    expect(await messageCount(server)).toBe(1);

    await publish(server, 'kept.second');
    await server.kill();
    expect(server.isRunning).toBe(false);
    await server.restart();
    expect(await messageCount(server)).toBe(2);
  });

  test('runs on server.conf: a frozen client is dropped after 2 s × 3', { timeout: timeoutMs }, async () => {
    await using server = await launchNats();
    const varz = (await (await fetch(`${server.monitorUrl}/varz`)).json()) as Record<string, unknown>;
    expect(varz).toMatchObject({ ping_interval: 2_000_000_000, ping_max: 2, server_name: server.serverName });
  });

  test('listens where it is told to', { timeout: timeoutMs }, async () => {
    await using server = await launchNats({ host: '127.0.0.2' });
    expect(server.url).toMatch(/^nats:\/\/127\.0\.0\.2:\d+$/);
    await publish(server, 'kept.here');
    expect(await messageCount(server)).toBe(1);
  });

  test('is gone with its folder once disposed', { timeout: timeoutMs }, async () => {
    const server = await launchNats();
    const storeFolder = await storeFolderOf(server);
    await access(storeFolder);
    await server[Symbol.asyncDispose]();
    expect(isAlive(server.pid)).toBe(false);
    await expect(access(storeFolder)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test.each([
    ['at once', false],
    ['once there is another process', true],
  ])('is gone, too, where it is disposed of while it starts again: %s', { timeout: timeoutMs }, async (_, waits) => {
    const server = await launchNats();
    const [storeFolder, firstPid] = [await storeFolderOf(server), server.pid];
    const restarting = server.restart().catch(() => {});
    while (waits && server.pid === firstPid) await sleep(1);
    await server[Symbol.asyncDispose]();
    await restarting;
    expect(isAlive(server.pid)).toBe(false);
    await expect(access(storeFolder)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('says what the log says when it cannot start', { timeout: timeoutMs }, async () => {
    await expect(launchNats({ configFile: 'no-such.conf' })).rejects.toMatchObject({
      code: 'SERVER_NOT_READY',
      message: expect.stringMatching(/it ended with exit code 1\n {2}nats-server: .*no-such\.conf: no such file/),
    });
  });

  test('dies with a parent that is killed', { timeout: timeoutMs }, async (context) => {
    if ((await findOnPath('setpriv')) === undefined) context.skip('no setpriv: only an exit hook ends it');
    const script = `
      const { launchNats } = await import(${JSON.stringify(import.meta.resolve('../../infra/servers/launch-nats.ts'))});
      console.log((await launchNats()).pid);
      setInterval(() => {}, 1000);`;
    await using folder = await mkdtempDisposable(`${tmpdir()}/wg-keepalive-test-`); // what the killed one leaves behind
    const parent = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      env: { ...process.env, TMPDIR: folder.path },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface(parent.stdout), 'line')) as [string];
    expect(isAlive(Number(line))).toBe(true);
    parent.kill('SIGKILL');
    await until(() => !isAlive(Number(line)));
  });

  test('forms a cluster of three that elects a new leader when the first is killed', {
    timeout: timeoutMs,
  }, async () => {
    await using cluster = await launchNatsCluster();
    const first = await cluster.leader();
    expect(cluster.servers).toContain(first);
    await first?.kill();
    const second = await until(async () => {
      const leader = await cluster.leader();
      return leader !== first && leader;
    });
    expect(cluster.servers).toContain(second);
    await first?.restart();
    expect(first?.isRunning).toBe(true);
  });
});

await describeReal('etcd', ['etcd'], () => {
  test('serves its pinned line and keeps data over SIGKILL', { timeout: timeoutMs }, async () => {
    await using etcd = await launchEtcd();
    const version = (await (await fetch(`${etcd.url}/version`)).json()) as { etcdserver: string };
    expect(version.etcdserver).toMatch(/^3\.\d+\.\d+$/);
    await etcdCall(etcd.url, 'put', { key: base64('k'), value: base64('v') });
    await etcd.kill();
    await etcd.restart();
    const range = await etcdCall(etcd.url, 'range', { key: base64('k') });
    expect(range).toMatchObject({ kvs: [{ value: base64('v') }] });
  });
});

await describeReal('kube-apiserver', ['etcd', 'kube-apiserver'], () => {
  test('knows its users, asks RBAC, audits, and keeps objects and tokens over a restart', {
    timeout: timeoutMs,
  }, async () => {
    await using api = await launchKubeApiserver({ audit: true, users: [{ name: 'viewer', groups: ['viewers'] }] });
    expect(await call(api, 'admin', 'GET', '/version')).toMatchObject({
      body: { gitVersion: expect.stringMatching(/^v1\.\d+\.\d+$/) },
    });
    const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'kept' }, data: { a: 'b' } };
    const path = '/api/v1/namespaces/default/configmaps';
    expect(await call(api, 'admin', 'POST', path, configMap)).toMatchObject({ status: 201 });
    expect(await call(api, 'viewer', 'GET', `${path}/kept`)).toMatchObject({
      status: 403,
      body: { message: expect.stringContaining('User "viewer" cannot get') },
    });
    await call(api, 'viewer', 'GET', '/apis/networking.liqo.io/v1beta1/namespaces/default/connections');
    const audited = (await readFile(api.auditLogFile ?? '', 'utf8')).trim().split('\n');
    expect(audited.map((line) => JSON.parse(line))).toMatchObject([
      { verb: 'list', user: { username: 'viewer', groups: ['viewers', 'system:authenticated'] } },
    ]);

    await api.restart();
    expect(await call(api, 'admin', 'GET', `${path}/kept`)).toMatchObject({ status: 200, body: { data: { a: 'b' } } });
  });

  test('issues ServiceAccount tokens, and its kubeconfig files work for kubectl readers', {
    timeout: timeoutMs,
  }, async () => {
    await using api = await launchKubeApiserver();
    const accounts = '/api/v1/namespaces/default/serviceaccounts';
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'gateway' } };
    await call(api, 'admin', 'POST', accounts, account);
    const tokenRequest = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };
    const issued = await call(api, 'admin', 'POST', `${accounts}/gateway/token`, tokenRequest);
    expect(issued.body).toMatchObject({ status: { token: expect.stringMatching(/^ey/) } });

    const { KubeConfig, AuthenticationV1Api } = await import('@kubernetes/client-node');
    const config = new KubeConfig();
    const { status } = issued.body as { status: { token: string } };
    config.loadFromFile(await api.writeKubeconfig('gateway', { token: status.token }));
    const review = await config
      .makeApiClient(AuthenticationV1Api)
      .createSelfSubjectReview({ body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' } });
    expect(review.status?.userInfo?.username).toBe('system:serviceaccount:default:gateway');
  });

  test('is gone with etcd and its folder once disposed', { timeout: timeoutMs }, async () => {
    const api = await launchKubeApiserver();
    await api[Symbol.asyncDispose]();
    expect([api.pid, api.etcd.pid].map(isAlive)).toEqual([false, false]);
    await expect(access(api.kubeconfig)).rejects.toMatchObject({ code: 'ENOENT' });
  });
});

async function publish(server: NatsServer, subject: string): Promise<void> {
  const connection = await connect({ servers: server.url });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: 'KEPT', subjects: ['kept.>'] });
  await jetstream(connection).publish(subject, 'value');
  await connection.close();
}

async function messageCount(server: NatsServer): Promise<number> {
  const connection = await connect({ servers: server.url });
  const { state } = await (await jetstreamManager(connection)).streams.info('KEPT');
  await connection.close();
  return state.messages;
}

async function storeFolderOf(server: NatsServer): Promise<string> {
  const jsz = (await (await fetch(`${server.monitorUrl}/jsz`)).json()) as { config: { store_dir: string } };
  return jsz.config.store_dir;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

async function etcdCall(url: string, verb: 'put' | 'range', body: object): Promise<unknown> {
  const response = await fetch(`${url}/v3/kv/${verb}`, { method: 'POST', body: JSON.stringify(body) });
  return response.json();
}

interface Answer {
  readonly status: number | undefined;
  readonly body: unknown;
}

/** One request that trusts the server's own authority, and nothing else. */
async function call(api: KubeApiserver, user: string, method: string, path: string, body?: object): Promise<Answer> {
  const agent = new Agent({ ca: await readFile(api.caFile) });
  const outgoing = request(`${api.url}${path}`, {
    method,
    agent,
    headers: { authorization: `Bearer ${api.tokenOf(user)}`, 'content-type': 'application/json' },
  });
  outgoing.end(body && JSON.stringify(body));
  const [response] = (await once(outgoing, 'response')) as [import('node:http').IncomingMessage];
  const text = (await response.setEncoding('utf8').toArray()).join('');
  agent.destroy();
  return { status: response.statusCode, body: text.startsWith('{') ? JSON.parse(text) : text };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Polls until the condition gives something true; the test's own time-out is the deadline. */
async function until<T>(condition: () => T | Promise<T>): Promise<Exclude<T, false | undefined>> {
  for (;;) {
    const value = await condition();
    if (value) return value as Exclude<T, false | undefined>;
    await sleep(25);
  }
}
