import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Anonymizer } from '../../shared/domain/anonymize.ts';
import type { Connection } from '../../shared/domain/connection.ts';
import { DECISION_TYPE } from '../../shared/domain/decision.ts';
import { GATEWAY_TYPE } from '../../shared/domain/gateway-announcement.ts';
import { OBSERVATION_TYPE } from '../../shared/domain/observation.ts';
import type { RecordedMessage } from '../../shared/domain/recorded-message.ts';
import { FunctionWorld, REF } from '../support/function-world.ts';
import { recordedBy, replayOf } from '../support/replay-of.ts';

const SECRETS = ['tenant-of-acme', 'acme-gateway', 'acme-cluster', 'wg-acme', '10.11.12.13', 'fd00:12::99'];

function observation(message: string): RecordedMessage {
  const data = {
    ...{
      namespace: 'tenant-of-acme',
      connection: 'gw-acme-gateway',
      interfaceId: 'wg-acme',
      gatewayEpoch: 1,
      sequence: 1,
    },
    ...{
      monotonicMs: 1,
      kind: 'down',
      value: 'Error',
      observedAt: '2026-01-01T00:00:00.000Z',
      reason: 'Lost',
      message,
    },
    ...{ note: 'acme-cluster in a field that nobody knows' },
  };
  const event = { id: 'run.wg-acme.1', source: '/gateways/tenant-of-acme/acme-gateway', type: OBSERVATION_TYPE, data };
  return { stream: 'OBSERVATIONS', sequence: 1, storedAtUnixMs: 1, event };
}

const announcement: RecordedMessage = {
  ...{ stream: 'GATEWAYS', sequence: 5, storedAtUnixMs: 1 },
  event: {
    ...{ id: 'x', source: '/gateways/tenant-of-acme/acme-gateway', type: GATEWAY_TYPE },
    data: {
      ...{ namespace: 'tenant-of-acme', connection: 'gw-acme-gateway', gatewayName: 'acme-gateway', mode: 'server' },
      ...{
        remoteClusterId: 'acme-cluster',
        interfaces: ['wg-acme', 'liqo-tunnel3'],
        announcedAt: '2026-01-01T00:00:00Z',
      },
    },
  },
};

const connection = {
  metadata: {
    ...{ namespace: 'tenant-of-acme', name: 'gw-acme-gateway', uid: 'acme-cluster', resourceVersion: '9' },
    labels: { 'liqo.io/remote-cluster-id': 'acme-cluster', team: 'tenant-of-acme' },
    ownerReferences: [
      { apiVersion: 'v1', kind: 'GatewayServer', name: 'acme-gateway', uid: '1b671a64-40d5-491e-99b0-da01ff1f3341' },
    ],
    managedFields: [
      {
        ...{ manager: 'wg-acme', operation: 'Apply', subresource: 'status' },
        fieldsV1: { 'f:status': { 'f:tunnels': { 'k:{"interfaceID":"wg-acme"}': { 'f:value': {} } } } },
      },
    ],
  },
  spec: {
    type: 'Server',
    gatewayRef: { apiVersion: 'v', kind: 'WgGatewayServer', name: 'acme-gateway', namespace: 'tenant-of-acme' },
  },
  status: {
    value: 'Error',
    tunnels: [{ interfaceID: 'wg-acme', value: 'Error', message: 'no PONG from 10.11.12.13' }],
  },
} as unknown as Connection;

function dataOf<Data>({ event }: Pick<RecordedMessage, 'event'>): Data {
  return event?.data as Data;
}

describe('an anonymized recording', () => {
  it('holds no name, no address and no field that nobody knows', () => {
    const anonymizer = new Anonymizer();
    const text = JSON.stringify([
      anonymizer.message(announcement),
      anonymizer.message(
        observation('no PONG of acme-gateway at 10.11.12.13, of fd00:12::99 since 2026-01-01T00:00:00.000Z'),
      ),
      anonymizer.connection(connection),
    ]);
    for (const secret of [...SECRETS, 'team', '1b671a64']) expect(text).not.toContain(secret);
    expect(text).toContain('no PONG of gateway-1 at address-1, of address-2 since 2026-01-01T00:00:00.000Z');
    expect(text).toContain('liqo-tunnel3');
  });

  it('calls the same thing by the same name everywhere', () => {
    const anonymizer = new Anonymizer();
    const said = anonymizer.message(announcement).event?.data as Record<string, unknown>;
    const seen = anonymizer.message(observation('x')).event;
    const object = anonymizer.connection(connection);
    expect(said).toMatchObject({ namespace: 'namespace-1', connection: 'gw-gateway-1', gatewayName: 'gateway-1' });
    expect(said.interfaces).toEqual(['interface-1', 'liqo-tunnel3']);
    expect(seen).toMatchObject({
      ...{ id: 'run.interface-1.1', source: '/gateways/namespace-1/gateway-1' },
      data: { namespace: 'namespace-1', connection: 'gw-gateway-1', interfaceId: 'interface-1' },
    });
    expect(object).toMatchObject({
      metadata: { namespace: 'namespace-1', name: 'gw-gateway-1', ownerReferences: [{ name: 'gateway-1' }] },
      spec: { gatewayRef: { name: 'gateway-1', namespace: 'namespace-1' } },
    });
    expect(object.metadata.labels).toEqual({ 'liqo.io/remote-cluster-id': said.remoteClusterId });
    const [managed] = object.metadata.managedFields ?? [];
    expect(managed).toMatchObject({ manager: 'interface-1' });
    expect(JSON.stringify(managed?.fieldsV1)).toContain('k:{\\"interfaceID\\":\\"interface-1\\"}');
    expect(object.status?.tunnels?.[0]).toMatchObject({ interfaceID: 'interface-1', value: 'Error' });
  });

  it('replays to the same states as the original', async () => {
    const world = new FunctionWorld();
    world.startAll();
    const gatewayEpoch = await world.announce(['liqo-tunnel', 'other'], { gatewayName: 'rome' });
    for (let sequence = 1; sequence <= 20; sequence++) {
      await world.observe({ gatewayEpoch, sequence, kind: 'pong' });
      await world.observe({ gatewayEpoch, sequence, kind: sequence > 10 ? 'down' : 'pong', interfaceId: 'other' });
      await world.clock.advance(2_000);
    }
    const original = await recordedBy(world);
    const anonymizer = new Anonymizer();
    const [a, b] = [await replayOf(original), await replayOf(original.map((message) => anonymizer.message(message)))];
    expect(b.summary.outcomes).toEqual(a.summary.outcomes);
    expect(b.steps.map(({ kind, reason, skipped, shows }) => ({ kind, reason, skipped, shows }))).toEqual(
      a.steps.map(({ kind, reason, skipped, shows }) => ({ kind, reason, skipped, shows })),
    );
    expect(JSON.stringify(b)).not.toContain(REF.namespace);
    // What was decided still belongs to its event.
    const decisions = (await recordedBy(world, 'DECISIONS')).map((message) => anonymizer.message(message));
    const ids = new Set(original.map((message) => anonymizer.message(message).event?.id));
    const decided = decisions.filter(
      ({ event }) => event?.type === DECISION_TYPE && (event.data as { function: string }).function === 'tunnel-status',
    );
    expect(decided.length).toBeGreaterThan(3);
    for (const { event } of decided) expect(ids).toContain(dataOf<{ eventId: string }>({ event }).eventId);
  });

  it('says nothing of what cannot be read, but that it is there', () => {
    const raw = {
      subject: 'observations.1.tenant-of-acme.x.y',
      headers: { 'ce-id': 'acme-gateway' },
      data: Buffer.from('acme-cluster'),
    };
    const message = new Anonymizer().message({ stream: 'OBSERVATIONS', sequence: 3, storedAtUnixMs: 4, raw });
    expect(message).toMatchObject({ sequence: 3, raw: { subject: 'anonymized', headers: {} } });
    expect(JSON.stringify(message)).not.toMatch(/acme/);
  });

  it('never lets a name through, whatever text it stands in', () => {
    const name = fc
      .stringMatching(/^[a-z][a-z0-9-]{3,20}[a-z0-9]$/)
      .filter((text) => !/^(gateway|namespace|interface|cluster|connection)/.test(text));
    fc.assert(
      fc.property(name, name, (namespace, gateway) => {
        fc.pre(!namespace.includes(gateway) && !gateway.includes(namespace) && namespace !== 'gateways');
        const data = {
          ...{ namespace, connection: `gw-${gateway}`, interfaceId: 'liqo-tunnel', gatewayEpoch: 1, kind: 'unlisted' },
          ...{
            observedAt: '2026-01-01T00:00:00.000Z',
            message: `(${namespace}/${gateway}): ${gateway}. "${namespace}"`,
          },
        };
        const event = { id: `x.${gateway}`, source: `/gateways/${namespace}/${gateway}`, type: OBSERVATION_TYPE, data };
        const out = new Anonymizer().message({ stream: 'OBSERVATIONS', sequence: 1, storedAtUnixMs: 1, event });
        const { message, ...rest } = dataOf<{ message: string; namespace: string }>(out);
        expect(message).toBe('(namespace-1/gateway-1): gateway-1. "namespace-1"');
        expect(rest.namespace).toBe('namespace-1');
        expect(out.event?.source).toBe('/gateways/namespace-1/gateway-1');
      }),
    );
  });
});
