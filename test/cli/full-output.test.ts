import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const MAIN = fileURLToPath(new URL('../../shared/cli/main.ts', import.meta.url));

it.runIf(process.platform === 'linux')('says so when the output has no room', async () => {
  await using full = await open('/dev/full', 'w');
  const child = spawn(process.execPath, [MAIN, '--help'], { stdio: ['ignore', full.fd, 'pipe'] });
  const exited = once(child, 'exit');
  expect(await text(child.stderr as NodeJS.ReadableStream)).toMatch(
    /^wg-keepalive: the output cannot be written: ENOSPC: .*\n$/,
  );
  expect((await exited)[0]).toBe(1);
});
