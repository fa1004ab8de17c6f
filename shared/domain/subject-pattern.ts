/** Subjects in the words of NATS: tokens between dots; in a pattern `*` stands for one token, a last `>` for one or more. */

const encoder = new TextEncoder();

/** Whether `subject` (without wildcards) is one that `pattern` stands for. */
export function subjectMatches(pattern: string, subject: string): boolean {
  let at = 0;
  let from = 0;
  while (from <= pattern.length) {
    if (at > subject.length) return false;
    const patternEnd = endOfToken(pattern, from);
    const token = pattern.slice(from, patternEnd);
    if (token === '>') return at < subject.length;
    const end = endOfToken(subject, at);
    if (token !== '*' && token !== subject.slice(at, end)) return false;
    if (end === at) return false;
    from = patternEnd + 1;
    at = end + 1;
  }
  return at > subject.length;
}

export function hasWildcard(pattern: string): boolean {
  return pattern.split('.').some((token) => token === '*' || token === '>');
}

/** A subject transform as a stream's configuration states it. */
export type SubjectTransform = { readonly source: string; readonly destination: string };

/**
 * Compiles a transform whose destination may hold `{{wildcard(i)}}` and `{{partition(n,i,…)}}`, where i counts the
 * source's `*` from 1. The result maps a subject, or gives `undefined` where the source does not match.
 *
 * @throws Error if the destination has another function or names a wildcard that the source lacks.
 */
export function compileTransform({ source, destination }: SubjectTransform): (subject: string) => string | undefined {
  const wildcards = source.split('.').flatMap((token, index) => (token === '*' ? [index] : []));
  const tokenOf = (argument: string): number => {
    const index = wildcards[Number(argument) - 1];
    if (index === undefined) {
      throw new Error(`subject transform ${destination}: wildcard ${argument} is not in the source ${source}`);
    }
    return index;
  };
  const parts = destination.split('.').map((token) => compileToken(token, destination, tokenOf));
  return (subject) => {
    if (!subjectMatches(source, subject)) return undefined;
    const tokens = subject.split('.');
    return parts.map((part) => part(tokens)).join('.');
  };
}

/** Bucket of some tokens as nats-server computes it: FNV-1a (32 bit) over their bytes, one after the other. */
export function partitionOf(count: number, ...tokens: readonly string[]): number {
  let hash = 0x811c9dc5;
  for (const byte of encoder.encode(tokens.join(''))) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0) % count;
}

type TokenMaker = (tokens: readonly string[]) => string;

function compileToken(token: string, destination: string, tokenOf: (argument: string) => number): TokenMaker {
  if (!token.startsWith('{{')) return () => token;
  const [, name, list] = /^\{\{(\w+)\(([\d,]+)\)\}\}$/.exec(token) ?? [];
  const [first = '', ...rest] = list?.split(',') ?? [];
  if (name === 'wildcard') {
    const index = tokenOf(first);
    return (tokens) => tokens[index] ?? '';
  }
  if (name === 'partition' && Number(first) > 0) {
    const indexes = rest.map(tokenOf);
    return (tokens) => String(partitionOf(Number(first), ...indexes.map((index) => tokens[index] ?? '')));
  }
  throw new Error(`subject transform ${destination}: ${token} is neither {{wildcard(i)}} nor {{partition(n,i,…)}}`);
}

function endOfToken(text: string, from: number): number {
  const dot = text.indexOf('.', from);
  return dot < 0 ? text.length : dot;
}
