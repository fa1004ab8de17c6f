import { parseArgs } from 'node:util';
import {
  COMMANDS,
  type CommandName,
  type CommandSpec,
  commandsWith,
  defaultOf,
  type OptionsOf,
  optionKeys,
} from './command-table.ts';
import { UsageError } from './errors.ts';
import { environmentVariableOf, OPTIONS, type OptionKey, optionOf, unknownVariables } from './options.ts';

export type Parsed<Name extends CommandName> = {
  readonly options: OptionsOf<Name>;
  readonly operands: readonly string[];
};

/** Text of each option that was given, and where: `--ping-interval` or `WG_KEEPALIVE_PING_INTERVAL`. */
type Given = Map<OptionKey, { readonly text: string; readonly source: string }>;

/**
 * Options of one command: defaults < environment < flags.
 *
 * @param args - what follows the command's name
 * @throws UsageError that names the flag or variable, its value and what is wanted
 */
export function parseOptions<Name extends CommandName>(
  name: Name,
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): Parsed<Name> {
  const spec: CommandSpec = COMMANDS[name];
  const [unknown] = unknownVariables(environment);
  if (unknown !== undefined) {
    throw new UsageError(`environment variable ${unknown}: there is no such option; see wg-keepalive ${name} --help`);
  }
  const flags = readFlags(name, spec, args);
  const given: Given = new Map([...readEnvironment(spec, environment), ...flags.given]);
  const options = Object.fromEntries(spec.options.map((key) => [key, resolveOption(key, spec, given)]));
  const missing = spec.required.filter((key) => options[key] === undefined);
  if (missing.length > 0) {
    const flagsMissing = missing.map((key) => `--${OPTIONS[key].flag}`).join(', ');
    throw new UsageError(`${flagsMissing}: required; see wg-keepalive ${name} --help`);
  }
  return { options: options as OptionsOf<Name>, operands: flags.operands };
}

function resolveOption(key: OptionKey, spec: CommandSpec, given: Given): unknown {
  const { kind } = optionOf(key);
  const found = given.get(key);
  if (found === undefined) return defaultOf(key, spec);
  const value = kind.parse(found.text);
  if (value === undefined) throw new UsageError(`${found.source} ${shown(found.text)}: want ${kind.want}`);
  return value;
}

/** Without what may be a password: this ends up in logs. */
function shown(text: string): string {
  return JSON.stringify(text).replace(/\/\/[^/\s]*@/g, '//…@');
}

/** An empty variable is an absent one: charts cannot leave a variable out as easily as leave it empty. */
function readEnvironment(spec: CommandSpec, environment: NodeJS.ProcessEnv): Given {
  const given: Given = new Map();
  for (const key of spec.options) {
    const source = environmentVariableOf(key);
    const text = environment[source];
    if (text) given.set(key, { text, source });
  }
  return given;
}

function readFlags(name: CommandName, spec: CommandSpec, args: readonly string[]) {
  const keyOf = new Map(spec.options.map((key) => [OPTIONS[key].flag as string, key]));
  const isBoolean = (key: OptionKey) => typeof OPTIONS[key].default === 'boolean';
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      [...keyOf].map(([flag, key]) => [flag, { type: isBoolean(key) ? 'boolean' : 'string' }]),
    ),
    strict: false, // our own messages name what is wanted
    tokens: true,
  });
  const given: Given = new Map();
  const operands: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') operands.push(token.value);
    if (token.kind !== 'option') continue;
    const key = keyOf.get(token.name);
    if (key === undefined || !token.rawName.startsWith('--')) throw unknownFlag(name, token.rawName);
    const source = `--${token.name}`;
    const text = token.value ?? (isBoolean(key) ? 'true' : undefined);
    if (text === undefined) throw new UsageError(`${source}: a value is missing; want ${OPTIONS[key].kind.want}`);
    if (!token.inlineValue && token.value?.startsWith('--')) {
      throw new UsageError(`${source}: a value is missing before ${text}; want ${OPTIONS[key].kind.want}`);
    }
    const before = optionOf(key).kind.repeatable ? given.get(key)?.text : undefined;
    given.set(key, { source, text: before === undefined ? text : `${before} ${text}` });
  }
  if (operands.length > 0 && spec.operands === undefined) {
    throw new UsageError(
      `${JSON.stringify(operands[0])}: ${name} takes flags only (write --flag=false for a false one); see wg-keepalive ${name} --help`,
    );
  }
  return { given, operands };
}

function unknownFlag(name: CommandName, rawName: string): UsageError {
  const elsewhere = optionKeys.find((key) => `--${OPTIONS[key].flag}` === rawName);
  const hint = elsewhere === undefined ? '' : ` (an option of ${commandsWith(elsewhere).join(', ')})`;
  return new UsageError(`${rawName}: ${name} has no such flag${hint}; see wg-keepalive ${name} --help`);
}
