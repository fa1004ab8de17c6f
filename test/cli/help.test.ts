import { describe, expect, it } from 'vitest';
import { COMMANDS, type CommandName } from '../../shared/cli/command-table.ts';
import { helpOf, helpOfAll, optionsMarkdown } from '../../shared/cli/help.ts';
import { OPTIONS } from '../../shared/cli/options.ts';

const names = Object.keys(COMMANDS) as CommandName[];

describe('help', () => {
  it('lists every command', () => {
    for (const name of names) expect(helpOfAll()).toContain(`  ${name} `);
  });

  it.each(names)('of %s shows each of its flags once, with its default', (name) => {
    const help = helpOf(name);
    for (const key of COMMANDS[name].options) {
      expect(help.match(new RegExp(`^  --${OPTIONS[key].flag}[ [=]`, 'gm'))).toHaveLength(1);
    }
  });

  it('fits a terminal of 120 columns', () => {
    for (const text of [helpOfAll(), ...names.map(helpOf)]) {
      expect(text.split('\n').filter((line) => line.length > 120)).toEqual([]);
    }
  });
});

describe('docs/options.md', () => {
  it('is what the schema says (npx vitest run test/cli/help.test.ts -u writes it)', async () => {
    await expect(optionsMarkdown()).toMatchFileSnapshot('../../docs/options.md');
  });
});
