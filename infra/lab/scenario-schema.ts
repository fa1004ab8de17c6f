import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { CATALOG } from '../../functions/catalog.ts';
import { OPTIONS, optionOf } from '../../shared/cli/options.ts';
import type { ConnectionValue } from '../../shared/domain/connection.ts';
import { connectionKey, connectionNameOf } from '../../shared/domain/connection.ts';
import { parseDuration } from '../../shared/domain/duration.ts';
import { interfaceIdOf, MAX_TUNNELS } from '../../shared/domain/tunnel-interface.ts';
import { LAB_GATEWAYS } from './lab.ts';

/** Options that a scenario may set, by their keys in the option table. */
export const settingOptions = {
  pingEnabled: true,
  pingIntervalMs: true,
  pingLossThreshold: true,
  pingUpdateStatusIntervalMs: true,
  pingBufferSizeBytes: true,
  gatewaySilentAfterMs: true,
} as const;

type SettingKey = keyof typeof settingOptions;
export type SettingFlag = (typeof OPTIONS)[SettingKey]['flag'];

/** A scenario file that has no faults. */
export type ScenarioDocument = {
  readonly name: string;
  readonly description: string;
  readonly tunnels: number;
  readonly settings?: Partial<Record<SettingFlag, unknown>>;
  readonly steps?: readonly ({ readonly at: string } & Readonly<Record<string, unknown>>)[];
  readonly expectations: readonly {
    readonly by: string;
    readonly connections?: 'all' | readonly string[];
    readonly value: ConnectionValue;
    readonly tunnels: Readonly<Record<string, ConnectionValue>>;
  }[];
};

/** Every `description` completes "want …". */
const text = { type: 'string', minLength: 1, description: 'some text' };
const duration = { type: 'string', format: 'duration', description: 'a duration such as 500ms or 2s' };
const tunnels = {
  type: 'integer',
  minimum: 1,
  maximum: MAX_TUNNELS,
  description: `an integer from 1 to ${MAX_TUNNELS}`,
};
const interfaceIds = Array.from({ length: MAX_TUNNELS }, (_, index) => interfaceIdOf(index));
const interfaceName = { enum: interfaceIds, description: 'the name of a tunnel: liqo-tunnel, liqo-tunnel1, …' };
const someInterfaces = { type: 'array', minItems: 1, items: interfaceName, description: 'a list of tunnels' };
const functionNames = CATALOG.map(({ manifest }) => manifest.name);
const connectionKeys = LAB_GATEWAYS.map(({ namespace, name }) =>
  connectionKey({ namespace, name: connectionNameOf(name) }),
);
const settingFlags = (Object.keys(settingOptions) as SettingKey[]).map((key) => OPTIONS[key].flag);
const value = {
  enum: ['Connected', 'Connecting', 'Error'] satisfies ConnectionValue[],
  description: 'Connected, Connecting or Error',
};

const actions = {
  cut: someInterfaces,
  restore: someInterfaces,
  scale: tunnels,
  crash: { enum: functionNames, description: `one of ${functionNames.join(', ')}` },
};

const step = {
  type: 'object',
  required: ['at'],
  properties: { at: duration, ...actions },
  additionalProperties: false,
  minProperties: 2,
  maxProperties: 2,
  description: `a time (at) and one of ${Object.keys(actions).join(', ')}`,
};

const expectation = {
  type: 'object',
  required: ['by', 'value', 'tunnels'],
  properties: {
    by: duration,
    connections: {
      anyOf: [{ const: 'all' }, { type: 'array', minItems: 1, items: { enum: connectionKeys } }],
      description: `all, or a list of ${connectionKeys.join(', ')}`,
    },
    value,
    tunnels: {
      type: 'object',
      propertyNames: interfaceName,
      additionalProperties: value,
      description: 'a value for each tunnel, such as { liqo-tunnel: Connected }',
    },
  },
  additionalProperties: false,
  description: 'by, value and tunnels',
};

const schema = {
  type: 'object',
  required: ['name', 'description', 'tunnels', 'expectations'],
  properties: {
    name: text,
    description: text,
    tunnels,
    settings: {
      type: 'object',
      propertyNames: { enum: settingFlags, description: `one of ${settingFlags.join(', ')}` },
      description: 'flags without their dashes',
    },
    steps: { type: 'array', items: step, description: 'a list of steps' },
    expectations: { type: 'array', minItems: 1, items: expectation, description: 'a list of expectations' },
  },
  additionalProperties: false,
  description: 'a mapping of name, description, tunnels, settings, steps, expectations',
};

const ajv = new Ajv2020({ allErrors: true, verbose: true, allowUnionTypes: true });
ajv.addFormat('duration', (duration: string) => (parseDuration(duration) ?? -1) >= 0);
const validate = ajv.compile(schema);

/** Everything that is wrong with it, each as `field: value, want …`. */
export function* scenarioFaults(document: unknown): Generator<string> {
  if (!validate(document)) {
    const errors = validate.errors?.filter(({ keyword }) => keyword !== 'propertyNames') ?? []; // it only repeats another
    yield* new Set(errors.map(faultOf));
    return;
  }
  const { settings = {} } = document as ScenarioDocument;
  for (const key of Object.keys(settingOptions) as SettingKey[]) {
    const { flag, kind } = optionOf(key);
    const given = settings[flag as SettingFlag];
    if (given !== undefined && kind.parse(String(given)) === undefined) {
      yield `settings.${flag}: ${JSON.stringify(given)}, want ${kind.want}`;
    }
  }
}

function faultOf({ keyword, instancePath, data, params, propertyName, parentSchema, message }: ErrorObject): string {
  const field = fieldOf(instancePath);
  const want = `want ${(parentSchema as { readonly description?: string }).description ?? message}`;
  const unknown: string | undefined = propertyName ?? params.additionalProperty;
  if (unknown !== undefined) return `${within(field, unknown)}: there is no such field, ${want}`;
  if (keyword === 'required') return `${within(field, params.missingProperty)}: is missing, ${want}`;
  return `${field || 'the file'}: ${JSON.stringify(data)}, ${want}`;
}

/** `/steps/1/at` as `steps[1].at`. */
function fieldOf(instancePath: string): string {
  return instancePath
    .slice(1)
    .replaceAll(/\/(\d+)/g, '[$1]')
    .replaceAll('/', '.');
}

function within(field: string, name: string): string {
  return field === '' ? name : `${field}.${name}`;
}
