import packageJson from '../../package.json' with { type: 'json' };
import { COMMANDS, type CommandName, isCommand, type Run } from './command-table.ts';
import { Interrupted, StartError, UsageError } from './errors.ts';
import { EXIT_FAILED, EXIT_INTERRUPTED, EXIT_NOT_STARTED } from './exit-codes.ts';
import { helpOf, helpOfAll } from './help.ts';
import { parseOptions } from './parse-options.ts';

/** One file a command, loaded only when it is called: `--help` and a wrong flag answer at once. */
const LOADERS: { readonly [Name in CommandName]: () => Promise<{ readonly run: Run<Name> }> } = {
  gateway: () => import('./commands/gateway.ts'),
  function: () => import('./commands/function.ts'),
  setup: () => import('./commands/setup.ts'),
  lab: () => import('../../infra/lab/lab-command.ts'),
  replay: () => import('./commands/replay.ts'),
  explain: () => import('./commands/explain.ts'),
  export: () => import('./commands/export.ts'),
  import: () => import('./commands/import.ts'),
  deadletters: () => import('./commands/deadletters.ts'),
  ui: () => import('./commands/ui.ts'),
};

/**
 * Runs one command line and gives the exit code. Results go to stdout, everything else to stderr.
 *
 * @param args - without the interpreter and the script
 */
export async function runCommandLine(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const [name = '', ...rest] = args;
  try {
    if (isHelp(name)) return print(rest[0] !== undefined && isCommand(rest[0]) ? helpOf(rest[0]) : helpOfAll());
    if (name === '--version') return print(`${packageJson.version}\n`);
    if (!isCommand(name)) throw notACommand(name);
    if (rest.includes('--help') || rest.includes('-h')) return print(helpOf(name));
    return await start(name, rest, environment);
  } catch (error) {
    return explain(name, error);
  }
}

async function start<Name extends CommandName>(
  name: Name,
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): Promise<number> {
  const { options, operands } = parseOptions(name, args, environment);
  const { run } = await LOADERS[name]();
  return run(options, operands);
}

function isHelp(name: string): boolean {
  return name === '--help' || name === '-h' || name === 'help';
}

function notACommand(name: string): UsageError {
  const commands = Object.keys(COMMANDS).join(', ');
  if (name === '') return new UsageError(`a command is missing: want one of ${commands}; see wg-keepalive --help`);
  return new UsageError(`there is no such command: want one of ${commands}; see wg-keepalive --help`);
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

/** One line for what the user can mend; the stack as well for what only we can. */
function explain(name: string, error: unknown): number {
  if (Interrupted.isCauseOf(error)) return EXIT_INTERRUPTED;
  const where = ['wg-keepalive', name].join(' ').trimEnd();
  if (error instanceof StartError) {
    process.stderr.write(`${where}: ${error.message}\n`);
    return EXIT_NOT_STARTED;
  }
  process.stderr.write(`${where}: unexpected failure, please report it: ${describe(error)}\n`);
  return EXIT_FAILED;
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.message}\n${error.stack}` : String(error);
}
