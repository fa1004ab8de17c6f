export type Endpoint = { readonly address: string; readonly port: number };

/**
 * One UDP socket bound to a tunnel's local address (and connected to its peer where the platform lets it).
 * Nothing here throws later: what fails after opening arrives through `onError`.
 */
export interface DatagramSocket {
  /**
   * Sends without waiting. `bytes` must stay untouched until `done`, which is called exactly once,
   * with the error's code (`EPERM`, `ENETUNREACH`, …) or `undefined`; after {@link close} with `ERR_SOCKET_CLOSED`.
   */
  send(bytes: Uint8Array, to: Endpoint, done: (errorCode: string | undefined) => void): void;
  /** Idempotent. */
  close(): void;
}

export interface DatagramSockets {
  /**
   * Rejects with an error whose `code` is the system's (`EADDRNOTAVAIL` while the address does not exist,
   * `EADDRINUSE` while somebody else has the port).
   */
  open(options: {
    readonly local: Endpoint;
    readonly peer: Endpoint;
    /** `bytes` is the callee's from then on: no other datagram comes in the same memory. */
    readonly onMessage: (bytes: Uint8Array, from: Endpoint) => void;
    readonly onError: (errorCode: string) => void;
  }): Promise<DatagramSocket>;

  /**
   * Runs `task` once every datagram that waits in the open sockets now has been handed to its `onMessage`, however
   * long this process stood still; bounded, so that a flood does not put it off for ever.
   */
  afterBacklog(task: () => void): void;
}
