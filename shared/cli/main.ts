#!/usr/bin/env node
/**
 * Where `wg-keepalive` starts. Nothing is imported before the Node version is known to be one that can:
 * an older one would end with a syntax error that helps nobody.
 */

const OLDEST_NODE = [22, 19] as const;
const EXIT_FAILED = 1;
const EXIT_NOT_STARTED = 2;
/** For what is still open once the command is done: it must not keep the process. */
const EXIT_TIMEOUT_MS = 1_000;

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])) {
  process.stderr.write(
    `wg-keepalive: this is Node ${process.versions.node} (${process.execPath}), ${OLDEST_NODE.join('.')} or newer is needed: ` +
      'put one on PATH, or run it by npx in a checkout after npm ci, which brings its own\n',
  );
  process.exitCode = EXIT_NOT_STARTED;
} else {
  process.on('uncaughtException', (error) => {
    process.stderr.write(`wg-keepalive: unexpected failure, please report it: ${error.message}\n${error.stack}\n`);
    process.exit(EXIT_FAILED);
  });
  // Whoever reads our output may leave early (`| head`); that is no failure.
  process.stderr.on('error', () => {});
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    process.stderr.write(`wg-keepalive: the output cannot be written: ${error.message}\n`);
    process.exit(EXIT_FAILED);
  });
  const { runCommandLine } = await import('./dispatch.ts');
  process.exitCode = await runCommandLine(process.argv.slice(2), process.env);
  setTimeout(() => process.exit(), EXIT_TIMEOUT_MS).unref();
}
