/**
 * `npm run simulate -- [--seeds N] [--from-seed N]`: runs simulations until one breaks an invariant;
 * that seed prints itself with its trace and the exit code is 1.
 */
import { parseArgs } from 'node:util';
import { simulate } from './simulation.ts';

const PROGRESS_EVERY_MS = 5_000;

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '200' }, 'from-seed': { type: 'string', default: '1' } },
});
const from = positiveInteger('from-seed', values['from-seed']);
const count = positiveInteger('seeds', values.seeds);

let toldAt = performance.now();
let failed = 0;
for (let seed = from; seed < from + count; seed++) {
  const { violations, trace } = await simulate({ seed });
  if (violations.length > 0) {
    failed++;
    process.stdout.write(`${trace.join('\n')}\nseed ${seed} breaks\n  ${violations.join('\n  ')}\n`);
    process.stdout.write(`run it again: npm run simulate -- --from-seed ${seed} --seeds 1\n`);
    break;
  }
  if (performance.now() - toldAt > PROGRESS_EVERY_MS) {
    toldAt = performance.now();
    process.stderr.write(`seed ${seed} of ${from + count - 1} holds\n`);
  }
}
if (failed === 0) process.stdout.write(`${count} seeds from ${from} on hold every invariant\n`);
process.exitCode = failed === 0 ? 0 : 1;

function positiveInteger(flag: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  process.stderr.write(`--${flag} is "${text}": want a whole number from 1 on\n`);
  process.exit(2);
}
