/** A gateway-resident worker: one a tunnel. */
export const manifest = {
  name: 'ping-sender',
  summary: 'Sends the PINGs of one tunnel when they are due',
} as const;
