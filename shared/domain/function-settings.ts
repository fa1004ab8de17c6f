/** What the flags of `wg-keepalive function` say to the functions. */
export type FunctionSettings = {
  /** Shortest time between two writes of an unchanged tunnel. @defaultValue 10000 */
  readonly updateStatusIntervalMs: number;
  /** A Connection whose gateway says nothing for this long turns to Error. @defaultValue 30000 */
  readonly gatewaySilentAfterMs: number;
  /** How long a mere refresh of a Connection's latency waits for those of its other tunnels. @defaultValue 500 */
  readonly aggregateDelayMs?: number;
  /** What is elsewhere is nobody's business here. @defaultValue all */
  readonly namespaces?: readonly string[];
};
