/**
 * One token of a NATS subject or KV key from a Kubernetes or interface name.
 * Outside `[A-Za-z0-9_-]` each UTF-8 byte becomes `=XX` (dots would split the token, `%` is not allowed in KV keys).
 */

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });
const PLAIN = /^[A-Za-z0-9_-]+$/;

export function encodeToken(name: string): string {
  if (PLAIN.test(name)) return name;
  let token = '';
  for (const byte of encoder.encode(name)) {
    const character = String.fromCharCode(byte);
    token += PLAIN.test(character) ? character : `=${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return token;
}

/** Whether the last tokens of a subject are these names. */
export function endsWithNames(subject: string, names: readonly string[]): boolean {
  let end = subject.length;
  for (const name of names.toReversed()) {
    const token = encodeToken(name);
    const start = end - token.length;
    if (subject[start - 1] !== '.' || !subject.startsWith(token, start)) return false;
    end = start - 1;
  }
  return true;
}

/** @throws Error if the token is not one that {@link encodeToken} makes. */
export function decodeToken(token: string): string {
  if (PLAIN.test(token)) return token;
  const bytes: number[] = [];
  for (let i = 0; i < token.length; i++) {
    const character = token.charAt(i);
    if (PLAIN.test(character)) {
      bytes.push(character.charCodeAt(0));
      continue;
    }
    const hex = token.slice(i + 1, i + 3);
    if (character !== '=' || !/^[0-9A-F]{2}$/.test(hex)) {
      throw new Error(`subject token ${JSON.stringify(token)}: want =XX at position ${i}`);
    }
    bytes.push(Number.parseInt(hex, 16));
    i += 2;
  }
  return decoder.decode(Uint8Array.from(bytes));
}
