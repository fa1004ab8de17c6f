import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const rows = await claims();

/** Rows of the tables: what is claimed, and the cell that says what holds it. */
async function claims(): Promise<{ readonly claim: string; readonly heldBy: string }[]> {
  const text = await readFile(join(root, 'docs/threat-model.md'), 'utf8');
  return text
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| ---') && !line.includes('| held by |'))
    .map((line) => line.split(' | '))
    .map((cells) => ({ claim: cells[0] ?? '', heldBy: cells.at(-1) ?? '' }));
}

describe('docs/threat-model.md', () => {
  it('makes claims', () => {
    expect(rows.length).toBeGreaterThan(20);
  });

  it.each(rows)('$claim: names tests that exist', async ({ heldBy }) => {
    const files = heldBy.split(/(?=`test\/)/);
    for (const part of files) {
      const file = /`(test\/[^`]+)`/.exec(part)?.[1] ?? expect.fail(`no test file in: ${part}`);
      expect(existsSync(join(root, file)), file).toBe(true);
      const source = (await readFile(join(root, file), 'utf8')).replaceAll('\\"', '"');
      for (const [, title = ''] of part.replaceAll('\\"', "'").matchAll(/"([^"]+)"/g)) {
        expect(source.replaceAll(/['"`]/g, "'").includes(`'${title}`), `${file} has "${title}"`).toBe(true);
      }
    }
  });
});
