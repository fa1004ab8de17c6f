import { COMMANDS, type CommandName, type CommandSpec, commandsWith, defaultOf, optionKeys } from './command-table.ts';
import { environmentVariableOf, OPTIONS, type OptionKey, optionOf } from './options.ts';

/** `--help` and `docs/options.md`, both from the tables and nothing else. */

export function helpOfAll(): string {
  const commands = Object.entries(COMMANDS).map(([name, { summary }]) => [name, summary] as const);
  return `Keepalive of multi-cluster networks: measures every WireGuard tunnel and keeps Connection.status true.

Usage: wg-keepalive COMMAND [FLAGS]
       wg-keepalive COMMAND --help
       wg-keepalive --version

Commands:
${columns(commands)}
${VARIABLES}
`;
}

export function helpOf(name: CommandName): string {
  const spec: CommandSpec = COMMANDS[name];
  const usage = [name, spec.operands ?? [], spec.required.map(usageOf), '[FLAGS]'].flat(2).join(' ');
  return `${spec.summary}.

Usage: wg-keepalive ${usage}

Flags:
${columns(spec.options.map((key) => [usageOf(key), `${OPTIONS[key].help}${noteOf(key, spec)}`]))}
${VARIABLES}
`;
}

const VARIABLES = `
Each flag is also an environment variable, ${environmentVariableOf('pingIntervalMs')} for --ping-interval; a flag wins.`;

/** `--ping-interval D`; a boolean is `--json`, or `--json=false`. */
function usageOf(key: OptionKey): string {
  const { flag, kind, default: defaultValue } = optionOf(key);
  return typeof defaultValue === 'boolean' ? `--${flag}[=${kind.placeholder}]` : `--${flag} ${kind.placeholder}`;
}

function shownDefault(key: OptionKey, defaultValue = optionOf(key).default): string | undefined {
  const { kind } = optionOf(key);
  return defaultValue === undefined ? undefined : kind.format(defaultValue);
}

function noteOf(key: OptionKey, spec: CommandSpec): string {
  if (spec.required.includes(key)) return ' (required)';
  const shown = shownDefault(key, defaultOf(key, spec));
  return shown === undefined ? '' : ` (default ${shown})`;
}

const WIDEST_LEFT_COLUMN = 34;

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.min(WIDEST_LEFT_COLUMN, Math.max(...rows.map(([left]) => left.length)));
  return rows
    .map(([left, right]) =>
      left.length > width ? `  ${left}\n  ${' '.repeat(width)}  ${right}` : `  ${left.padEnd(width)}  ${right}`,
    )
    .join('\n');
}

/** The page `docs/options.md`. */
export function optionsMarkdown(): string {
  const commands = Object.entries(COMMANDS).map(([name, spec]: [string, CommandSpec]) =>
    row([`\`${[name, spec.operands ?? []].flat().join(' ')}\``, spec.summary, flagsOf(spec.required)]),
  );
  const options = optionKeys.map((key) => {
    const { kind, help } = optionOf(key);
    const shown = shownDefault(key);
    const names = `\`--${OPTIONS[key].flag}\`<br>\`${environmentVariableOf(key)}\``;
    return row([names, help, kind.want, shown === undefined ? '' : `\`${shown}\``, commandsWith(key).join(', ')]);
  });
  return `# Commands and options

Written from the option schema (\`shared/cli/options.ts\`, \`shared/cli/command-table.ts\`) by \`npx vitest run test/cli/help.test.ts -u\`; a test holds it
against the code. Defaults are overridden by environment variables, these by flags. An unknown flag or variable, or a value that cannot be used, ends
the process with exit code 2. An empty variable counts as absent. Kubernetes is found in the pod, else by \`KUBECONFIG\`.

| command | what it does | required flags |
| --- | --- | --- |
${commands.join('\n')}

| flag, variable | meaning | value | default | commands |
| --- | --- | --- | --- | --- |
${options.join('\n')}
`;
}

function flagsOf(keys: readonly OptionKey[]): string {
  return keys.map((key) => `\`--${OPTIONS[key].flag}\``).join(', ');
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}
