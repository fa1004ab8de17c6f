/** @throws RangeError without values */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError('median of no values');
  const sorted = values.toSorted((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)] as number;
  return sorted.length % 2 === 1 ? upper : ((sorted[sorted.length / 2 - 1] as number) + upper) / 2;
}

/** @param share - 0 … 1: the smallest value that at least this share of all does not exceed */
export function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) throw new RangeError('quantile of no values');
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number;
}

export type Point = { readonly x: number; readonly y: number };

/** Least squares of log y over log x: y ≈ factor · x^exponent. Points that are not positive have no logarithm. */
export function fitPower(points: readonly Point[]): { readonly exponent: number; readonly factor: number } | undefined {
  const line = fitLine(
    points.filter(({ x, y }) => x > 0 && y > 0).map(({ x, y }) => ({ x: Math.log(x), y: Math.log(y) })),
  );
  return line && { exponent: line.slope, factor: Math.exp(line.intercept) };
}

/** Least squares of y over x; `undefined` without two different x. */
export function fitLine(points: readonly Point[]): { readonly slope: number; readonly intercept: number } | undefined {
  const meanX = mean(points.map(({ x }) => x));
  const meanY = mean(points.map(({ y }) => y));
  const spread = points.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0);
  if (!(spread > 0)) return undefined;
  const slope = points.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0) / spread;
  return { slope, intercept: meanY - slope * meanX };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
