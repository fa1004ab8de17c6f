/** A gateway-resident worker: one a tunnel's socket. */
export const manifest = {
  name: 'ping-receiver',
  summary: "Answers the peer's PINGs and measures its PONGs",
} as const;
