import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { OPTIONS, optionOf } from '../../shared/cli/options.ts';
import type { ConnectionValue } from '../../shared/domain/connection.ts';
import { connectionKey, connectionNameOf } from '../../shared/domain/connection.ts';
import { LAB_GATEWAYS } from './lab.ts';
import { type Action, actionFormats, actionSchemas, durationText, interfaceName, tunnelCount } from './lab-action.ts';

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
    readonly steady?: boolean;
  }[];
};

/** Every `description` completes "want …". */
const text = { type: 'string', minLength: 1, description: 'some text' };
const connectionKeys = LAB_GATEWAYS.map(({ namespace, name }) =>
  connectionKey({ namespace, name: connectionNameOf(name) }),
);
const settingFlags = (Object.keys(settingOptions) as SettingKey[]).map((key) => OPTIONS[key].flag);
const value = {
  enum: ['Connected', 'Connecting', 'Error'] satisfies ConnectionValue[],
  description: 'Connected, Connecting or Error',
};

const step = {
  type: 'object',
  required: ['at'],
  properties: { at: durationText, ...actionSchemas },
  additionalProperties: false,
  minProperties: 2,
  maxProperties: 2,
  description: `a time (at) and one of ${Object.keys(actionSchemas).join(', ')}`,
};

const expectation = {
  type: 'object',
  required: ['by', 'value', 'tunnels'],
  properties: {
    by: durationText,
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
    steady: { type: 'boolean', description: 'true: nothing has changed since the expectation above, until then' },
  },
  additionalProperties: false,
  description: 'by, value, tunnels and steady',
};

const schema = {
  type: 'object',
  required: ['name', 'description', 'tunnels', 'expectations'],
  properties: {
    name: text,
    description: text,
    tunnels: tunnelCount,
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
for (const [name, check] of Object.entries(actionFormats)) ajv.addFormat(name, check);
const validate = ajv.compile(schema);
const { at: _, ...withoutTime } = step.properties;
const validateAction = ajv.compile({
  ...step,
  required: [],
  properties: withoutTime,
  minProperties: 1,
  maxProperties: 1,
  description: `one of ${Object.keys(actionSchemas).join(', ')}`,
});

/** An action that comes from outside, or what is wrong with it. */
export function checkAction(action: unknown): { readonly action: Action } | { readonly faults: readonly string[] } {
  if (validateAction(action)) return { action: action as Action };
  return { faults: [...new Set((validateAction.errors ?? []).map((error) => faultOf(error, 'the action')))] };
}

/** Everything that is wrong with it, each as `field: value, want …`. */
export function* scenarioFaults(document: unknown): Generator<string> {
  if (!validate(document)) {
    const errors = validate.errors?.filter(({ keyword }) => keyword !== 'propertyNames') ?? []; // it only repeats another
    yield* new Set(errors.map((error) => faultOf(error, 'the file')));
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

function faultOf(
  { keyword, instancePath, data, params, propertyName, parentSchema, message }: ErrorObject,
  whole: string,
): string {
  const field = fieldOf(instancePath);
  const want = `want ${(parentSchema as { readonly description?: string }).description ?? message}`;
  const unknown: string | undefined = propertyName ?? params.additionalProperty;
  if (unknown !== undefined) return `${within(field, unknown)}: there is no such field, ${want}`;
  if (keyword === 'required') return `${within(field, params.missingProperty)}: is missing, ${want}`;
  return `${field || whole}: ${JSON.stringify(data)}, ${want}`;
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
