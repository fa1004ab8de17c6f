import { OPTIONS, type OptionKey, type OptionValue } from './options.ts';

/** What a command takes. What it does is in `commands/<name>.ts`, loaded when it is called. */
export type CommandSpec = {
  /** One line, without a full stop. */
  readonly summary: string;
  /** Options in the order of the help. */
  readonly options: readonly OptionKey[];
  /** Of these, the ones that must be given. */
  readonly required: readonly OptionKey[];
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
    options: ['natsReplicas', ...NATS, 'logLevel'],
    required: [],
  },
  lab: {
    summary: 'Two gateways, their tunnels and all functions on this machine, live',
    options: ['durationMs', 'labTunnels', 'scenarioFile', 'parts', 'exportFile', 'json', ...PING, ...PROCESS],
    required: [],
  },
} as const satisfies Record<string, CommandSpec>;

export type CommandName = keyof typeof COMMANDS;

/** Commands that are planned and not there yet. */
export const PLANNED = {
  replay: 'Runs a window of past events through the functions again',
  explain: 'Says why each tunnel has the value it has',
  export: 'Writes a window of events, decisions and objects to one file',
  import: 'Makes such a file from a capture of keepalive datagrams',
  deadletters: 'Lists, shows and retries events that no function could take',
  ui: 'The page: Connections, tunnels and decisions, live and past',
} as const;

export type PlannedName = keyof typeof PLANNED;

type Command<Name extends CommandName> = (typeof COMMANDS)[Name];

/** Options of a command as it gets them: required ones are there, others as {@link OptionValue} says. */
export type OptionsOf<Name extends CommandName> = {
  readonly [Key in Command<Name>['options'][number]]: Key extends Command<Name>['required'][number]
    ? Exclude<OptionValue<Key>, undefined>
    : OptionValue<Key>;
};

/** How a command is called. Its promise gives the exit code. */
export type Run<Name extends CommandName> = (options: OptionsOf<Name>, operands: readonly string[]) => Promise<number>;

export function isCommand(name: string): name is CommandName {
  return Object.hasOwn(COMMANDS, name);
}

export function isPlanned(name: string): name is PlannedName {
  return Object.hasOwn(PLANNED, name);
}

/** Commands that take an option, in the order of the table. */
export function commandsWith(key: OptionKey): readonly CommandName[] {
  return (Object.keys(COMMANDS) as CommandName[]).filter((name) =>
    (COMMANDS[name].options as readonly OptionKey[]).includes(key),
  );
}

export const optionKeys = Object.keys(OPTIONS) as readonly OptionKey[];
