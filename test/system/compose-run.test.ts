import { mkdtempDisposable, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFailed } from 'vitest';
import { CATALOG } from '../../functions/catalog.ts';
import type { PastFilm } from '../../shared/cli/page-past.ts';
import type { Connection } from '../../shared/domain/connection.ts';
import type { PagePatch } from '../../shared/domain/page-patch.ts';
import { ComposedContainers } from '../support/composed-containers.ts';
import { eventually } from '../support/eventually.ts';
import { REAL_LAB_NEEDS } from '../support/real-lab.ts';
import { describeReal } from '../support/real-parts.ts';

const FUNCTIONS = CATALOG.map(({ manifest }) => manifest.name);
/** In an order that `depends_on` allows; with a second replica, as `--scale tunnel-status=2` gives. */
const CONTAINERS = [
  ...['prepare', 'users', 'nats', 'etcd', 'kube-apiserver', 'setup', 'tenants'],
  ...FUNCTIONS,
  ...['tunnel-status.2', 'gateway-server', 'gateway-client', 'page'],
];
const WITHIN_MS = 120_000;
/** C36 */
const BACK_WITHIN_MS = 30_000;

await describeReal(
  'docker-compose.yml, in namespaces instead of containers',
  [...REAL_LAB_NEEDS, 'go', 'openssl', 'curl'],
  () => {
    const cleanUp = new AsyncDisposableStack();
    let folder: string;
    let composed: ComposedContainers;

    beforeAll(async () => {
      folder = cleanUp.use(await mkdtempDisposable(join(tmpdir(), 'wg-keepalive-composed-'))).path;
      composed = cleanUp.use(await ComposedContainers.open(folder));
      await composed.connect(CONTAINERS);
      for (const name of CONTAINERS) await composed.start(name);
    });
    afterAll(() => cleanUp.disposeAsync());

    const secret = (name: string) => readFile(join(folder, 'volumes/secrets', name), 'utf8');

    async function connections(): Promise<readonly Connection[]> {
      const path = '/apis/networking.liqo.io/v1beta1/connections';
      const authority = ['--cacert', join(folder, 'volumes/secrets/ca.crt')];
      const token = ['-H', `Authorization: Bearer ${await secret('token')}`];
      const text = await composed.exec('kube-apiserver', 'curl', [
        ...['-fsS', ...authority, ...token, `https://localhost:6443${path}`],
      ]);
      return (JSON.parse(text) as { items: readonly Connection[] }).items;
    }

    async function areConnected(): Promise<boolean> {
      const values = (await connections()).map(({ status }) => [status?.value, status?.tunnels?.length]);
      return (
        JSON.stringify(values) ===
        JSON.stringify([
          ['Connected', 4],
          ['Connected', 4],
        ])
      );
    }

    async function askPage(...args: readonly string[]): Promise<string> {
      const cookie = ['-H', `Cookie: wg-keepalive-page=${(await secret('page-token')).trim()}`];
      const anyhow = ['-c', 'curl -s "$@" || true', 'sh']; // events end only because their time is over
      return composed.exec('page', 'sh', [...anyhow, ...cookie, ...args]);
    }

    /** All that it would tell a browser within a few seconds. */
    async function patches(): Promise<readonly PagePatch[]> {
      const events = await askPage('-N', '--max-time', '5', 'http://127.0.0.1:8088/events');
      return [...events.matchAll(/^data: (\{.*\})$/gm)].map(([, data = '']) => JSON.parse(data) as PagePatch);
    }

    it('every container comes up in the order that the file demands, and both Connections are Connected', async () => {
      onTestFailed(async () => console.error(JSON.stringify(await connections(), undefined, 1)));
      await eventually(areConnected, 'both Connections with four tunnels Connected', WITHIN_MS);
      for (const name of [...FUNCTIONS, 'gateway-server', 'gateway-client', 'page']) await composed.isHealthy(name);
    });

    it('the page asks for its token, and shows replicas, Connections and the past with the one user that it has', async () => {
      expect(await composed.exec('page', 'curl', ['-sS', 'http://127.0.0.1:8088/'])).toContain('token');
      const found = async () => {
        const told = await patches();
        const functions = told.flatMap(({ functions: some = [] }) => some);
        const counts = functions.filter(({ name }) => name === 'tunnel-status').map(({ replicas }) => replicas.length);
        return counts.includes(2) && told.some(({ connections: some = [] }) => some.length === 2);
      };
      await eventually(found, 'two replicas of tunnel-status and both Connections on the page', WITHIN_MS);
      const json = ['-H', 'Content-Type: application/json', '-d', '{ "minutes": 5 }'];
      const film = JSON.parse(await askPage(...json, 'http://127.0.0.1:8088/past')) as PastFilm;
      expect(film.frames.length).toBeGreaterThan(0);
    });

    it('a scenario runs against it, and one that is not for it says what it wants', async () => {
      const { code, output } = await composed.runToEnd('scenario');
      expect(output).toContain('scenario asymmetric-loss: all 3 expectations were met');
      expect(code).toBe(0);
      const other = await composed.runToEnd('scenario', ['one-tunnel-cut']);
      expect(other).toMatchObject({
        code: 2,
        output: expect.stringContaining('PING_LOSS_THRESHOLD=3 docker compose up -d'),
      });
      const impossible = await composed.runToEnd('scenario', ['scale-4-2-8']);
      expect(impossible).toMatchObject({ code: 2, output: expect.stringContaining('scale cannot be done from here') });
    });

    it('C36: a gateway that is killed is started again, three times, and its tunnels are Connected again', async () => {
      for (let kill = 1; kill <= 3; kill++) {
        await composed.kill('gateway-server');
        await composed.restart('gateway-server');
        const isUp = async () => {
          const page = await composed
            .exec('gateway-server', 'curl', ['-sS', 'http://127.0.0.1:8089/metrics'])
            .catch(() => '');
          return [...page.matchAll(/^wg_keepalive_tunnel_up\{.*\} 1$/gm)].length === 4;
        };
        await eventually(isUp, `all tunnels up after kill ${kill}`, BACK_WITHIN_MS);
      }
      await eventually(areConnected, 'both Connections Connected again', WITHIN_MS);
    });

    it('no process of it was refused anything by NATS, or ended by itself', async () => {
      for (const name of CONTAINERS.slice(CONTAINERS.indexOf('setup'))) {
        expect(await readFile(composed.logOf(name), 'utf8'), name).not.toMatch(
          /refused by nats|Permissions Violation/i,
        );
      }
    });
  },
);
