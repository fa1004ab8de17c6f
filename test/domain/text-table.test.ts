import { expect, test } from 'vitest';
import { textTable } from '../../shared/domain/text-table.ts';

const ROWS = [
  ['name', 'count', 'why'],
  ['a longer name', '7', ''],
  ['b', '1234567', 'so'],
];

test('makes each column as wide as its widest cell and leaves no blanks at the end of a line', () => {
  expect(textTable(ROWS)).toEqual(['name           count    why', 'a longer name  7', 'b              1234567  so']);
});

test('puts numbers at the right', () => {
  expect(textTable(ROWS, 'all-but-first')).toEqual([
    'name             count  why',
    'a longer name        7',
    'b              1234567   so',
  ]);
});

test('is nothing where there are no rows', () => {
  expect(textTable([])).toEqual([]);
});
