/**
 * RFC 3339 with up to nine digits of a second, as Go's `time.RFC3339Nano` reads and writes it.
 * A double holds Unix nanoseconds to 256 ns only, so an instant is two integers.
 *
 * @see https://www.rfc-editor.org/rfc/rfc3339#section-5.6
 */

export type UnixNanos = {
  /** Whole seconds since 1970, negative before. */
  readonly seconds: number;
  /** 0 to 999,999,999. */
  readonly nanos: number;
};

const SECONDS_A_DAY = 86_400;
const ZERO = 0x30;
const DASH = 0x2d;
const COLON = 0x3a;
const DOT = 0x2e;
const PLUS = 0x2b;
const UPPER_T = 0x54;
const UPPER_Z = 0x5a;

/** Length of what {@link writeRfc3339Nanos} writes: `2026-01-02T03:04:05.123456789Z`. */
export const RFC3339_NANOS_LENGTH = 30;

/** Nanoseconds of an instant in Unix milliseconds. */
export function unixNanosOfMs(unixMs: number): UnixNanos {
  const seconds = Math.floor(unixMs / 1_000);
  return { seconds, nanos: Math.min(999_999_999, Math.round((unixMs - seconds * 1_000) * 1e6)) };
}

/** Unix milliseconds of an instant, with a fraction. */
export function unixMsOf({ seconds, nanos }: UnixNanos): number {
  return seconds * 1e3 + nanos / 1e6;
}

/** Milliseconds from one instant to a later one, negative if it is earlier. */
export function betweenMs(from: UnixNanos, to: UnixNanos): number {
  return (to.seconds - from.seconds) * 1e3 + (to.nanos - from.nanos) / 1e6;
}

/** `instant` moved on by `deltaNs` ≥ 0. */
export function addNanos(instant: UnixNanos, deltaNs: number): UnixNanos {
  const sum = instant.nanos + deltaNs;
  const carry = Math.floor(sum / 1e9);
  return { seconds: instant.seconds + carry, nanos: sum - carry * 1e9 };
}

/** Negative, zero or positive, as `Array.sort` wants it. */
export function compareNanos(a: UnixNanos, b: UnixNanos): number {
  return a.seconds - b.seconds || a.nanos - b.nanos;
}

/** A label for people, in UTC with milliseconds: `2026-01-02T03:04:05.123Z`. */
export function formatRfc3339Ms(unixMs: number): string {
  const bytes = new Uint8Array(RFC3339_NANOS_LENGTH);
  writeRfc3339Nanos(bytes, 0, unixNanosOfMs(Math.floor(unixMs)));
  return `${String.fromCharCode(...bytes.subarray(0, 23))}Z`;
}

/** In UTC, always nine digits. */
export function formatRfc3339Nanos(instant: UnixNanos): string {
  const bytes = new Uint8Array(RFC3339_NANOS_LENGTH);
  writeRfc3339Nanos(bytes, 0, instant);
  return String.fromCharCode(...bytes);
}

/** Writes {@link RFC3339_NANOS_LENGTH} ASCII bytes at `offset`; the year must lie in 0000–9999. */
export function writeRfc3339Nanos(bytes: Uint8Array, offset: number, { seconds, nanos }: UnixNanos): void {
  const days = Math.floor(seconds / SECONDS_A_DAY);
  writeDate(bytes, offset, days);
  const second = seconds - days * SECONDS_A_DAY;
  bytes[offset + 10] = UPPER_T;
  writeDigits(bytes, offset + 11, 2, Math.floor(second / 3_600));
  bytes[offset + 13] = COLON;
  writeDigits(bytes, offset + 14, 2, Math.floor(second / 60) % 60);
  bytes[offset + 16] = COLON;
  writeDigits(bytes, offset + 17, 2, second % 60);
  bytes[offset + 19] = DOT;
  writeDigits(bytes, offset + 20, 9, nanos);
  bytes[offset + 29] = UPPER_Z;
}

/** Any valid RFC 3339 instant, else `undefined`; never throws. */
export function parseRfc3339(text: string): UnixNanos | undefined {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) return undefined;
    bytes[i] = code;
  }
  return parseRfc3339Bytes(bytes, 0, bytes.length);
}

/** {@link parseRfc3339} of the ASCII bytes from `start` to `end`, which must use them all. */
export function parseRfc3339Bytes(bytes: Uint8Array, start: number, end: number): UnixNanos | undefined {
  if (end - start < 20 || end > bytes.length) return undefined;
  const days = parseDate(bytes, start);
  const second = parseTime(bytes, start + 10);
  if (days === undefined || second < 0) return undefined;
  let at = start + 19;
  let nanos = 0;
  if (bytes[at] === DOT) {
    const first = ++at;
    for (; at < end && isDigit(bytes[at]); at++) {
      if (at - first === 9) return undefined;
      nanos = nanos * 10 + digit(bytes[at]);
    }
    if (at === first) return undefined;
    for (let digits = at - first; digits < 9; digits++) nanos *= 10;
  }
  const offset = parseOffset(bytes, at, end);
  return offset === undefined ? undefined : { seconds: days * SECONDS_A_DAY + second - offset, nanos };
}

function parseDate(bytes: Uint8Array, at: number): number | undefined {
  const year = parseDigits(bytes, at, 4);
  const month = parseDigits(bytes, at + 5, 2);
  const day = parseDigits(bytes, at + 8, 2);
  const dashes = bytes[at + 4] === DASH && bytes[at + 7] === DASH;
  if (!dashes || year < 0 || month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month)) return undefined;
  return daysFromCivil(year, month, day);
}

/** Second of the day from `T03:04:05`, or -1. */
function parseTime(bytes: Uint8Array, at: number): number {
  const hour = parseDigits(bytes, at + 1, 2);
  const minute = parseDigits(bytes, at + 4, 2);
  const second = parseDigits(bytes, at + 7, 2);
  if (bytes[at] !== UPPER_T || bytes[at + 3] !== COLON || bytes[at + 6] !== COLON) return -1;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return -1;
  return hour * 3_600 + minute * 60 + second;
}

/** Seconds east of UTC from `Z` or `+03:00`. */
function parseOffset(bytes: Uint8Array, at: number, end: number): number | undefined {
  if (end - at === 1 && bytes[at] === UPPER_Z) return 0;
  if (end - at !== 6 || bytes[at + 3] !== COLON) return undefined;
  const sign = bytes[at] === PLUS ? 1 : bytes[at] === DASH ? -1 : 0;
  const hours = parseDigits(bytes, at + 1, 2);
  const minutes = parseDigits(bytes, at + 4, 2);
  if (sign === 0 || hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return undefined;
  return sign * (hours * 3_600 + minutes * 60);
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= ZERO + 9;
}

function digit(byte: number | undefined): number {
  return (byte as number) - ZERO;
}

/** -1 where a byte is not a digit. */
function parseDigits(bytes: Uint8Array, at: number, count: number): number {
  let value = 0;
  for (let i = at; i < at + count; i++) {
    if (!isDigit(bytes[i])) return -1;
    value = value * 10 + digit(bytes[i]);
  }
  return value;
}

function writeDigits(bytes: Uint8Array, at: number, count: number, value: number): void {
  let rest = value;
  for (let i = at + count - 1; i >= at; i--) {
    const tens = Math.floor(rest / 10);
    bytes[i] = ZERO + rest - tens * 10;
    rest = tens;
  }
}

function daysInMonth(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/** Days since 1970-01-01 of a date, and back: the year begins in March, so that the leap day comes last. */
function daysFromCivil(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  return (
    era * 146_097 + yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear - 719_468
  );
}

function writeDate(bytes: Uint8Array, at: number, days: number): void {
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1_460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const marchMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  writeDigits(bytes, at, 4, yearOfEra + era * 400 + (month <= 2 ? 1 : 0));
  bytes[at + 4] = DASH;
  writeDigits(bytes, at + 5, 2, month);
  bytes[at + 7] = DASH;
  writeDigits(bytes, at + 8, 2, dayOfYear - Math.floor((153 * marchMonth + 2) / 5) + 1);
}
