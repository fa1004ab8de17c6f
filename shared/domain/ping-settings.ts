/** How tunnels are probed and judged; the flags of the same names set them. */
export type PingSettings = {
  /** Off: every tunnel is Connected, without a latency, reason Unmonitored. @defaultValue true */
  readonly enabled: boolean;
  /** UDP port of both sides. @defaultValue 12345 */
  readonly port: number;
  /** @defaultValue 2000 */
  readonly intervalMs: number;
  /** A tunnel is Error once `intervalMs × lossThreshold` has passed since its last valid PONG. @defaultValue 5 */
  readonly lossThreshold: number;
  /** Shortest time between two writes of an unchanged tunnel. @defaultValue 10000 */
  readonly updateStatusIntervalMs: number;
  /** Longest datagram that is read. @defaultValue 1024 */
  readonly bufferSizeBytes: number;
};

export const DEFAULT_PING_SETTINGS: PingSettings = {
  enabled: true,
  port: 12345,
  intervalMs: 2_000,
  lossThreshold: 5,
  updateStatusIntervalMs: 10_000,
  bufferSizeBytes: 1_024,
};
