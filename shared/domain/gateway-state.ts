import type { GatewayAnnouncement } from './gateway-announcement.ts';

/** What connection-ensure keeps of a Connection: the run that counts, and what it announced last. */
export type GatewayState = {
  /** Highest epoch accepted; announcements of a lower one are stale. */
  readonly epoch: number;
  /** GATEWAYS sequence of `announcement`. */
  readonly sequence: number;
  readonly announcement: GatewayAnnouncement;
};

export type AnnouncementJudgement =
  | { readonly kind: 'accepted'; readonly state: GatewayState }
  /** Accepted before, seen again. */
  | { readonly kind: 'known'; readonly state: GatewayState }
  | { readonly kind: 'stale'; readonly state: GatewayState };

/** The first announcement of a run has its own sequence as epoch; later ones carry it. */
export function judgeAnnouncement(
  state: GatewayState | undefined,
  announcement: GatewayAnnouncement,
  sequence: number,
): AnnouncementJudgement {
  const epoch = announcement.epoch ?? sequence;
  if (state !== undefined) {
    if (epoch < state.epoch) return { kind: 'stale', state };
    if (epoch === state.epoch && sequence < state.sequence) return { kind: 'stale', state };
    if (epoch === state.epoch && sequence === state.sequence) return { kind: 'known', state };
  }
  return { kind: 'accepted', state: { epoch, sequence, announcement } };
}
