/**
 * Columns as wide as their widest cell, two spaces apart; a line a row, without blanks at its end.
 *
 * @param numbers - which columns hold numbers and stand at the right: none, or all but the first
 */
export function textTable(rows: readonly (readonly string[])[], numbers: 'none' | 'all-but-first' = 'none'): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const padded = (cell: string, column: number) => {
    const width = widths[column] ?? 0;
    return numbers === 'none' || column === 0 ? cell.padEnd(width) : cell.padStart(width);
  };
  return rows.map((row) => row.map(padded).join('  ').trimEnd());
}
