/** `npm run servers -- [NAME…]`: makes the real parts available for tests and the lab; does nothing for those that are. */
import { BuildError, buildServer } from './builder.ts';
import { ALL_NAMES, readPart, SERVER_NAMES, type ServerName, TOOL_NAMES } from './catalog.ts';
import { searchServer } from './find.ts';

const usage = `usage: npm run servers -- [NAME…]

  NAME  ${SERVER_NAMES.join(', ')} (the default: all of these), ${TOOL_NAMES.join(', ')}

Each is looked for in KUBEBUILDER_ASSETS, on PATH and in the cache
($XDG_CACHE_HOME or ~/.cache, then wg-keepalive/servers), and else built with Go.
`;

const names = process.argv.slice(2);
if (names.includes('--help') || names.includes('-h')) {
  process.stdout.write(usage);
} else {
  const unknown = names.filter((name) => !isServerName(name));
  if (unknown.length > 0) {
    process.stderr.write(`unknown part: ${unknown.join(', ')}\n\n${usage}`);
    process.exitCode = 2;
  } else {
    process.exitCode = await makeAvailable(names.length > 0 ? names.filter(isServerName) : SERVER_NAMES);
  }
}

async function makeAvailable(wanted: readonly ServerName[]): Promise<number> {
  let failures = 0;
  for (const name of wanted) {
    const { found, passedOver } = await searchServer(name);
    for (const line of passedOver) process.stderr.write(`${name}: passed over: ${line}\n`);
    try {
      if (found)
        process.stderr.write(`${`${name} ${found.version}`.padEnd(24)}here  ${found.path} (${found.source})\n`);
      else await buildServer(await readPart(name));
    } catch (error) {
      if (!(error instanceof BuildError)) throw error;
      process.stderr.write(`${error.message}\n`);
      failures++;
    }
  }
  return failures > 0 ? 1 : 0;
}

function isServerName(name: string): name is ServerName {
  return (ALL_NAMES as readonly string[]).includes(name);
}
