import { OPTIONS, type OptionKey, type OptionValue } from './options.ts';

/** What a command takes. What it does is in `commands/<name>.ts`, loaded when it is called. */
export type CommandSpec = {
  /** One line, without a full stop. */
  readonly summary: string;
  /** Options in the order of the help. */
  readonly options: readonly OptionKey[];
  /** Of these, the ones that must be given. */
  readonly required: readonly OptionKey[];
  /** Where this command wants another default than the option's own. */
  readonly defaults?: { readonly [Key in OptionKey]?: OptionValue<Key> };
  /** Arguments beside flags, as the usage line shows them; absent: none are taken. */
  readonly operands?: string;
};

const PING = [
  'pingEnabled',
  'pingPort',
  'pingIntervalMs',
  'pingLossThreshold',
  'pingUpdateStatusIntervalMs',
  'pingBufferSizeBytes',
  'pingSuspectIntervalMs',
] as const satisfies readonly OptionKey[];
const NATS = [
  'natsServers',
  'natsCredentialsFile',
  'natsUser',
  'natsPasswordFile',
  'natsCaFile',
  'natsCertificateFile',
  'natsKeyFile',
] as const satisfies readonly OptionKey[];
const PROCESS = ['metricsBindAddress', 'logLevel'] as const satisfies readonly OptionKey[];

const WINDOW = ['recordingFile', 'replayFrom', 'replayTo', 'connectionRef'] as const satisfies readonly OptionKey[];

export const COMMANDS = {
  gateway: {
    summary: 'Measures the tunnels of one gateway and tells NATS; runs in the gateway pod',
    options: [
      ...['namespace', 'name', 'mode', 'remoteClusterId', 'gatewayUid', 'numInterfaces', 'tunnels'],
      ...PING,
      ...NATS,
      ...PROCESS,
    ],
    required: ['namespace', 'name', 'mode', 'remoteClusterId'],
  },
  function: {
    summary: 'Runs functions: turns events into the status of Connections; any number of replicas',
    operands: 'NAME…|all',
    options: ['pingUpdateStatusIntervalMs', 'gatewaySilentAfterMs', 'watchNamespaces', ...NATS, ...PROCESS],
    required: [],
  },
  setup: {
    summary: 'Creates or updates streams, consumers and the state bucket, installs the CRDs and checks them',
    options: [
      ...['natsReplicas', 'historyMaxAgeMs', 'observationsMaxBytes', 'decisionsMaxBytes', 'restored'],
      ...NATS,
      'logLevel',
    ],
    required: [],
  },
  lab: {
    summary: 'Two gateways, their tunnels and all functions on this machine, live',
    options: [
      ...['durationMs', 'labTunnels', 'labReplicas', 'natsReplicas', 'scenarioFile', 'parts', 'exportFile', 'json'],
      ...['ui', 'uiBindAddress'],
      ...PING,
      ...['gatewaySilentAfterMs', 'logLevel'],
    ],
    required: [],
    defaults: { logLevel: 'error' },
  },
  replay: {
    summary: 'Runs a window of past events through the functions again, in a sandbox; says what would have been',
    options: [
      ...WINDOW,
      ...['replaySpeed', 'settingChanges', 'settingSweep', 'diff', 'diffWith', 'follow', 'json'],
      ...NATS,
      'logLevel',
    ],
    required: [],
    defaults: { logLevel: 'warn' },
  },
  explain: {
    summary: 'Says why each tunnel of a Connection has the value it has: the events behind it',
    operands: 'NAMESPACE/NAME',
    options: ['explainAt', 'recordingFile', 'json', ...NATS, 'logLevel'],
    required: [],
    defaults: { logLevel: 'warn' },
  },
  export: {
    summary: 'Writes a window of events, decisions and objects to one file, for replay --file',
    options: ['outputFile', 'replayFrom', 'replayTo', 'connectionRef', 'anonymize', ...NATS, 'logLevel'],
    required: ['outputFile'],
    defaults: { logLevel: 'warn' },
  },
  import: {
    summary: 'Makes such a file from a capture of keepalive datagrams',
    options: [
      ...['captureFile', 'outputFile', 'connectionRef', 'localAddresses', 'pingPort'],
      ...['pingIntervalMs', 'pingLossThreshold', 'logLevel'],
    ],
    required: ['captureFile', 'outputFile'],
    defaults: { logLevel: 'warn' },
  },
  deadletters: {
    summary: 'Lists, shows and retries events that no function could take',
    operands: 'list|show SEQUENCE|retry SEQUENCE…|retry all',
    options: ['json', ...NATS, 'logLevel'],
    required: [],
    defaults: { logLevel: 'warn' },
  },
  ui: {
    summary: 'The page: Connections, tunnels and decisions, live and past',
    options: ['uiBindAddress', 'uiTokenFile', 'watchNamespaces', ...NATS, 'logLevel'],
    required: [],
  },
} as const satisfies Record<string, CommandSpec>;

export type CommandName = keyof typeof COMMANDS;

type Command<Name extends CommandName> = (typeof COMMANDS)[Name];

/** Options of a command as it gets them: required ones are there, others as {@link OptionValue} says. */
export type OptionsOf<Name extends CommandName> = {
  readonly [Key in Command<Name>['options'][number]]: Key extends Command<Name>['required'][number]
    ? Exclude<OptionValue<Key>, undefined>
    : OptionValue<Key>;
};

/** How a command is called. Its promise gives the exit code. */
export type Run<Name extends CommandName> = (options: OptionsOf<Name>, operands: readonly string[]) => Promise<number>;

/** The value of an option that is not given to a command. */
export function defaultOf(key: OptionKey, spec: CommandSpec): unknown {
  return spec.defaults?.[key] ?? OPTIONS[key].default;
}

export function isCommand(name: string): name is CommandName {
  return Object.hasOwn(COMMANDS, name);
}

/** Commands that take an option, in the order of the table. */
export function commandsWith(key: OptionKey): readonly CommandName[] {
  return (Object.keys(COMMANDS) as CommandName[]).filter((name) =>
    (COMMANDS[name].options as readonly OptionKey[]).includes(key),
  );
}

export const optionKeys = Object.keys(OPTIONS) as readonly OptionKey[];
