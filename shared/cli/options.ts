import { DEFAULT_PING_SETTINGS } from '../domain/ping-settings.ts';
import { HISTORY, LONGEST_TIMER_MS } from '../domain/topology.ts';
import { MAX_TUNNELS } from '../domain/tunnel-interface.ts';
import {
  bindAddress,
  boolean,
  bytes,
  choice,
  duration,
  integer,
  type Kind,
  labelValue,
  list,
  natsServers,
  objectName,
  text,
  tunnel,
} from './option-kinds.ts';
import { bound, connectionRef, ipAddress, settingChange, settingSweep, speed } from './replay-option-kinds.ts';

/** One option: its flag, its environment variable, its default and its line of help. */
export type Option<Value, Default extends Value | undefined> = {
  /** Without the dashes: `ping-interval`. */
  readonly flag: string;
  readonly kind: Kind<Value> & { readonly repeatable?: true };
  /** Applies where neither flag nor variable is given; `undefined`: the option may be absent. */
  readonly default: Default;
  /** What it does, in one line without a full stop. */
  readonly help: string;
};

function option<Value>(flag: string, kind: Kind<Value>, help: string): Option<Value, undefined>;
function option<Value>(flag: string, kind: Kind<Value>, help: string, defaultValue: Value): Option<Value, Value>;
function option<Value>(flag: string, kind: Kind<Value>, help: string, defaultValue?: Value) {
  return { flag, kind, help, default: defaultValue };
}

const PING = DEFAULT_PING_SETTINGS;
const SECOND_MS = 1_000;
const HOUR_MS = 3_600 * SECOND_MS;
const YEAR_MS = 365 * 24 * HOUR_MS;
const MIB = 1_024 * 1_024;

/**
 * Every option there is. The keys are the names in code, with their units; `--help`, `docs/options.md`
 * and the environment variables come from here and nowhere else.
 */
export const OPTIONS = {
  namespace: option('namespace', objectName, 'Namespace of the gateway and its Connection'),
  name: option('name', objectName, 'Name of the gateway; its Connection is called gw-NAME'),
  mode: option('mode', choice('server', 'client'), 'Side of the gateway; the server has the first address of each /30'),
  remoteClusterId: option('remote-cluster-id', labelValue, 'Cluster at the other end'),
  gatewayUid: option('gateway-uid', text('UID', 'a Kubernetes uid'), 'uid of the gateway resource, for gatewayRef'),
  numInterfaces: option('num-interfaces', integer(1, MAX_TUNNELS), 'Number of parallel tunnels', 1),
  tunnels: option('tunnel', list(tunnel), 'Addresses of one tunnel, instead of the derived ones; repeatable'),
  pingEnabled: option(
    'ping-enabled',
    boolean,
    'Whether tunnels are probed; false: Connected, Unmonitored',
    PING.enabled,
  ),
  pingPort: option('ping-port', integer(1, 65_535), 'UDP port of both sides', PING.port),
  pingIntervalMs: option('ping-interval', duration(1, HOUR_MS), 'Time between two PINGs of a tunnel', PING.intervalMs),
  pingLossThreshold: option(
    'ping-loss-threshold',
    integer(1, 100),
    'A tunnel is Error this many intervals after its last PONG',
    PING.lossThreshold,
  ),
  pingUpdateStatusIntervalMs: option(
    'ping-update-status-interval',
    duration(0),
    'Shortest time between two writes of an unchanged tunnel',
    PING.updateStatusIntervalMs,
  ),
  pingBufferSizeBytes: option(
    'ping-buffer-size',
    integer(64, 65_507),
    'Longest datagram that is read, in bytes',
    PING.bufferSizeBytes,
  ),
  pingSuspectIntervalMs: option(
    'ping-suspect-interval',
    duration(1, HOUR_MS),
    'After a first miss, probe this often instead',
  ),
  gatewaySilentAfterMs: option(
    'gateway-silent-after',
    duration(100, LONGEST_TIMER_MS),
    'A gateway silent so long: Error; ≥ 3 × ping interval × threshold',
    3 * PING.intervalMs * PING.lossThreshold,
  ),
  natsServers: option('nats-url', natsServers, 'NATS servers', ['nats://127.0.0.1:4222']),
  natsCredentialsFile: option('nats-credentials', file('an NKey seed or a .creds file'), 'Credentials for NATS'),
  natsUser: option('nats-user', text('USER', 'the name of a NATS user'), 'User of NATS, where there are passwords'),
  natsPasswordFile: option('nats-password-file', file('a file with a password'), 'Password of that user'),
  natsCaFile: option('nats-ca', file('a PEM file'), 'Authority that signed the certificate of NATS; demands TLS'),
  natsCertificateFile: option('nats-cert', file('a PEM file'), 'Certificate to show to NATS; demands TLS'),
  natsKeyFile: option('nats-key', file('a PEM file'), 'Key of that certificate'),
  watchNamespaces: option(
    'watch-namespace',
    list(objectName),
    'Looks after this namespace only; repeatable; without it, after all',
  ),
  natsReplicas: option('nats-replicas', integer(1, 5), 'Copies of each stream in a NATS cluster', 1),
  restored: option('restored', boolean, 'NATS is back from a backup: new gateway runs count as newest', false),
  historyMaxAgeMs: option(
    'history-max-age',
    duration(HISTORY.minAgeMs, YEAR_MS),
    'OBSERVATIONS and DECISIONS keep at most this long',
    HISTORY.maxAgeMs,
  ),
  observationsMaxBytes: option(
    'observations-max-bytes',
    bytes(16 * MIB),
    'OBSERVATIONS keeps the newest, at most this much before compression',
    HISTORY.observationsMaxBytes,
  ),
  decisionsMaxBytes: option(
    'decisions-max-bytes',
    bytes(16 * MIB),
    'DECISIONS keeps the newest, at most this much before compression',
    HISTORY.decisionsMaxBytes,
  ),
  metricsBindAddress: option('metrics-bind-address', bindAddress, 'Serves /healthz, /readyz and /metrics', {
    port: 8_089,
  }),
  uiBindAddress: option('ui-bind-address', bindAddress, 'Serves the page', { host: '127.0.0.1', port: 8_088 }),
  uiTokenFile: option(
    'ui-token-file',
    file('a file with a token'),
    'Demands this token of who looks; beyond loopback, without it, one is made',
  ),
  ui: option('ui', boolean, 'Serves the page of the lab too', true),
  logLevel: option('log-level', choice('debug', 'info', 'warn', 'error'), 'Least severe line that is logged', 'info'),
  durationMs: option('duration', duration(SECOND_MS), 'Ends by itself after this long'),
  labTunnels: option('tunnels', integer(1, MAX_TUNNELS), 'Number of tunnels between the two gateways', 4),
  labReplicas: option('replicas', integer(1, 8), 'Replicas of every function', 1),
  scenarioFile: option(
    'scenario',
    text('FILE', 'the path of a scenario file'),
    'What happens to the tunnels, and when',
  ),
  parts: option(
    'parts',
    choice('embedded', 'real'),
    'In this process, or NATS, Kubernetes API and WireGuard (root)',
    'embedded',
  ),
  exportFile: option('export', file('a file to write'), 'Writes all events of the run to a file'),
  replayFrom: option('from', bound, 'First event of the window; without it, the first there is'),
  replayTo: option('to', bound, 'Last event of the window; without it, the last there is'),
  connectionRef: option('connection', connectionRef, 'Only this Connection; without it, all'),
  recordingFile: option('file', file('a recording'), 'Reads a recording instead of NATS'),
  replaySpeed: option('speed', speed, 'Times as fast as it happened', Number.POSITIVE_INFINITY),
  settingChanges: option(
    'set',
    list(settingChange),
    'Judges by another setting; with --diff, how the functions ran; repeatable',
  ),
  settingSweep: option('sweep', settingSweep, 'Judges them by each value of one setting, for a curve'),
  diff: option('diff', boolean, 'Holds it against Connections and decisions; 1 if they differ', false),
  diffWith: option(
    'diff-with',
    file('what replay --json wrote'),
    'Holds it against another replay; exit 1 if they differ',
  ),
  follow: option('follow', boolean, 'Goes on with what comes', false),
  explainAt: option('at', bound, 'As of this event or time; without it, as of the last event'),
  outputFile: option('output', file('a recording to write'), 'Where the recording goes'),
  anonymize: option('anonymize', boolean, 'Other names and addresses in place of the true ones, consistently', false),
  captureFile: option('pcap', file('a pcap or pcapng file'), 'Capture of keepalive datagrams, by tcpdump on a gateway'),
  localAddresses: option(
    'local',
    list(ipAddress),
    'Address of the gateway that captured; repeatable; without it, read off the capture',
  ),
  json: option('json', boolean, 'One JSON object as the last line of the output', false),
} as const satisfies Record<string, unknown>;

export type OptionKey = keyof typeof OPTIONS;

/** Every option seen as one of unknown value, for code that goes over all of them. */
export const optionOf = (key: OptionKey): Option<unknown, unknown> => OPTIONS[key] as Option<unknown, unknown>;

/** Type of an option's value once defaults are in: `undefined` is part of it where there is no default. */
export type OptionValue<Key extends OptionKey> =
  (typeof OPTIONS)[Key] extends Option<infer Value, infer Default>
    ? Default extends undefined
      ? Value | undefined
      : Value
    : never;

/** Files that hold credentials are read again at each connect, so that rotated ones take over. */
function file(what: string): Kind<string> {
  return text('FILE', `the path of ${what}`);
}

const ENVIRONMENT_PREFIX = 'WG_KEEPALIVE_';

/** `WG_KEEPALIVE_PING_INTERVAL` of `--ping-interval`. */
export function environmentVariableOf(key: OptionKey): string {
  return ENVIRONMENT_PREFIX + OPTIONS[key].flag.toUpperCase().replaceAll('-', '_');
}

/**
 * What Kubernetes puts into every pod for a Service called `wg-keepalive…` (service links): nobody's mistake.
 *
 * @see https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
 */
const SERVICE_LINK = /_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$/;

/** Variables with our prefix that belong to no option of any command. */
export function unknownVariables(environment: NodeJS.ProcessEnv): readonly string[] {
  const known = new Set((Object.keys(OPTIONS) as OptionKey[]).map(environmentVariableOf));
  return Object.keys(environment).filter(
    (name) => name.startsWith(ENVIRONMENT_PREFIX) && !known.has(name) && !SERVICE_LINK.test(name),
  );
}
