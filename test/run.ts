/**
 * `npm test -- [VITEST ARGUMENTS]`: makes the real servers available, runs the suites, and ends with one line,
 * `N passed, N failed[, N skipped]`. With `CI` set nothing may be left out.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseCLI, startVitest } from 'vitest/node';
import { isCi } from './support/real-parts.ts';
import { Summary } from './support/summary.ts';

const root = join(import.meta.dirname, '..');
const { filter, options } = parseCLI(['vitest', 'run', ...process.argv.slice(2)]);
const withoutServers = ['unit', 'simulation'];
const projects = [options.project ?? []].flat();
const wantsServers = projects.length === 0 || projects.some((name) => !withoutServers.includes(name));

if (wantsServers && !(await buildServers())) {
  say('Real servers are missing (see above): suites that need them are left out, or fail where CI is set.');
}
const summary = new Summary();
const vitest = await startVitest('test', filter, { ...options, root, watch: false, reporters: ['default', summary] });
await vitest.close();

if (summary.leftOut.length > 0) {
  say(`\nLeft out, each with its reason:\n${summary.leftOut.map((title) => `  ${title}`).join('\n')}`);
}
if (summary.passed + summary.failed === 0) say('\nNo test ran.');
if (isCi() && summary.skipped > 0) say('\nCI is set: what is left out counts as a failure.');
say(`\n${summary}`);
const isGood = summary.failed === 0 && summary.passed > 0 && !(isCi() && summary.skipped > 0);
process.exitCode = isGood ? 0 : 1;

/** Builds what is neither on PATH nor in the cache; progress goes to the terminal. */
async function buildServers(): Promise<boolean> {
  const build = spawn(process.execPath, [join(root, 'infra/servers/build.ts')], { stdio: ['ignore', 2, 2] });
  const [code] = await once(build, 'exit');
  return code === 0;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
