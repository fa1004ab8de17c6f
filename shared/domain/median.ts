/** The upper one of the two in the middle where there are two; `undefined` of nothing. */
export function median(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}
