import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { GatewayAnnouncement } from '../../shared/domain/gateway-announcement.ts';
import { type GatewayState, judgeAnnouncement } from '../../shared/domain/gateway-state.ts';

/** Runs of one gateway as GATEWAYS stores them: each first announcement's sequence is its epoch, later ones carry it. */
const histories = fc.array(fc.nat(4), { minLength: 1, maxLength: 30 }).map((picks) => {
  const epochs: number[] = [];
  return picks.map((pick, index) => {
    const sequence = index + 1;
    const epoch = epochs[pick];
    if (epoch === undefined) epochs.push(sequence);
    return { sequence, announcement: announcement(sequence, epoch) };
  });
});

function announcement(n: number, epoch: number | undefined): GatewayAnnouncement {
  const about = { namespace: 'n', connection: 'gw-a', gatewayName: 'a', mode: 'server', remoteClusterId: 'b' } as const;
  return { ...about, interfaces: [`tunnel-${n}`], announcedAt: '', ...(epoch !== undefined && { epoch }) };
}

function judgeAll(history: Parameters<typeof last>[0]): GatewayState | undefined {
  return history.reduce<GatewayState | undefined>(
    (state, { announcement, sequence }) => judgeAnnouncement(state, announcement, sequence).state,
    undefined,
  );
}

/** The last announcement of the newest run. */
function last(history: readonly { readonly sequence: number; readonly announcement: GatewayAnnouncement }[]) {
  return history
    .map((told) => ({ epoch: told.announcement.epoch ?? told.sequence, ...told }))
    .toSorted((a, b) => a.epoch - b.epoch || a.sequence - b.sequence)
    .at(-1);
}

describe('judging announcements', () => {
  it('comes to the last word of the newest run, in whatever order and however often they are handed out', () => {
    const shuffled = histories.chain((history) =>
      fc.tuple(fc.constant(history), fc.shuffledSubarray([...history, ...history], { minLength: history.length * 2 })),
    );
    fc.assert(
      fc.property(shuffled, ([history, order]) => {
        const { epoch, sequence, announcement: expected } = last(history) ?? {};
        expect(judgeAll(order)).toEqual({ epoch, sequence, announcement: expected });
      }),
    );
  });

  it('knows what it accepted before, and calls stale what is older', () => {
    const first = judgeAnnouncement(undefined, announcement(5, undefined), 5);
    expect(first).toMatchObject({ kind: 'accepted', state: { epoch: 5, sequence: 5 } });
    expect(judgeAnnouncement(first.state, announcement(5, undefined), 5).kind).toBe('known');
    expect(judgeAnnouncement(first.state, announcement(4, undefined), 4).kind).toBe('stale');
    const second = judgeAnnouncement(first.state, announcement(9, 5), 9);
    expect(second).toMatchObject({ kind: 'accepted', state: { epoch: 5, sequence: 9 } });
    expect(judgeAnnouncement(second.state, announcement(8, 5), 8).kind).toBe('stale');
  });
});
