import { describe, expect, it } from 'vitest';
import type { Decision } from '../../shared/domain/decision.ts';
import type { Observation } from '../../shared/domain/observation.ts';
import type { ConnectionWrite } from '../support/audit-log.ts';
import { judgeRun, type StoredEvent } from './verdict.ts';

const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, '0')}.000Z`;

function seen(sequence: number, value: 'Connected' | 'Error', gatewayEpoch = 1): StoredEvent {
  const event: Observation = {
    ...{ namespace: 'ns', connection: 'gw-a', interfaceId: 't', gatewayEpoch, sequence, monotonicMs: sequence },
    ...{ kind: value === 'Error' ? 'down' : 'pong', value, observedAt: at(sequence) },
  };
  return { id: `e${gatewayEpoch}.${sequence}`, event };
}

function wrote(value: 'Connected' | 'Error', transition: number, measured?: number): ConnectionWrite {
  const latency = measured === undefined ? {} : { latency: { value: '1ms', timestamp: at(measured) } };
  return {
    ...{
      user: 'admin',
      verb: 'patch',
      connection: 'ns/gw-a',
      subresource: 'status',
      fieldManager: 't',
      code: 200,
      operations: undefined,
    },
    status: { tunnels: [{ interfaceID: 't', value, lastTransitionTime: at(transition), ...latency }] },
  };
}

function failure(eventId: string): Decision {
  const about = { namespace: 'ns', connection: 'gw-a', interfaceId: 't' };
  return { ...about, function: 'tunnel-status', eventId, outcome: 'failed', reason: 'unavailable', decidedAt: at(0) };
}

const observed = [seen(1, 'Connected'), seen(2, 'Error'), seen(3, 'Error'), seen(4, 'Connected')];

describe('judgeRun', () => {
  it('is content where each change was written, also by a later observation of the same value', () => {
    const writes = [wrote('Connected', 1, 1), wrote('Error', 3), wrote('Connected', 4, 4)];
    expect(judgeRun(observed, writes, [])).toMatchObject({ transitions: 3, written: 3, lost: [], stale: [] });
  });

  it('names a change that was not written', () => {
    const { lost } = judgeRun(observed, [wrote('Connected', 1, 1), wrote('Connected', 1, 4)], []);
    expect(lost).toHaveLength(2);
    expect(lost[0]).toMatch(/^ns\/gw-a\/t: Error of .* \(e1\.2, 2 in a row\)/);
  });

  it('tells apart what the API server did not take', () => {
    const writes = [wrote('Connected', 1, 1), wrote('Connected', 4, 4)];
    expect(judgeRun(observed, writes, [failure('e1.3')])).toMatchObject({ written: 2, superseded: 1, lost: [] });
  });

  it('wants no write of a value that is shown still, as what came between was not taken', () => {
    const writes = [wrote('Connected', 1, 1), wrote('Connected', 1, 4)];
    expect(judgeRun(observed, writes, [failure('e1.3')])).toMatchObject({ written: 1, superseded: 2, lost: [] });
  });

  it('sees a write of an older value after a newer one', () => {
    const writes = [wrote('Connected', 1, 1), wrote('Error', 2), wrote('Connected', 4, 4), wrote('Error', 3)];
    expect(judgeRun(observed, writes, []).stale).toHaveLength(1);
  });

  it('leaves out what is older by epoch or sequence', () => {
    const late = [seen(1, 'Connected', 2), seen(9, 'Error', 1), seen(1, 'Error', 2)];
    expect(judgeRun(late, [wrote('Connected', 1, 1)], [])).toMatchObject({ transitions: 1, lost: [], stale: [] });
  });
});
