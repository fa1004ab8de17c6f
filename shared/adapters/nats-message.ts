import type { Msg, MsgHdrs } from 'nats';
import { headers as newHeaders } from 'nats';
import type { StreamName } from '../domain/topology.ts';
import type { Delivery, StoredMessage } from '../ports/event-bus.ts';
import { busErrorOfFault } from './nats-errors.ts';

const NOT_FOUND = 404;

/** Headers in the client's form. */
export function toHeaders(record: Readonly<Record<string, string>>): MsgHdrs {
  const headers = newHeaders();
  for (const name in record) headers.append(name, record[name] ?? '');
  return headers;
}

/** Headers as a plain record; of a repeated one the last value counts. */
export function fromHeaders(headers: MsgHdrs | undefined): Record<string, string> {
  const record: Record<string, string> = {};
  if (headers) for (const [name, values] of headers) record[name] = values.at(-1) ?? '';
  return record;
}

/**
 * Reads a delivery; its reply subject says where it stands:
 * `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time ns>.<pending>`.
 */
export function toDelivery(message: Msg, stream: StreamName): Delivery {
  const tokens = (message.reply ?? '').split('.');
  const at = tokens.length > 9 ? 6 : 4;
  return {
    stream,
    subject: message.subject,
    headers: fromHeaders(message.headers),
    data: message.data,
    deliveryCount: Number(tokens[at]),
    streamSequence: Number(tokens[at + 1]),
    deliverySequence: Number(tokens[at + 2]),
    storedAtUnixMs: Number(tokens[at + 3]?.slice(0, -6)), // nanoseconds do not fit a number
    pending: Number(tokens[at + 4]),
  };
}

/**
 * What a direct get by a bare request brought, `undefined` where there is no such message.
 *
 * @throws BusError where the server refused
 * @see https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-31.md
 */
export function directAnswer(answer: Msg, what: string): (Msg & { readonly headers: MsgHdrs }) | undefined {
  const { headers } = answer;
  if (headers !== undefined && headers.code < 300) return answer as Msg & { readonly headers: MsgHdrs };
  const { code, description } = headers ?? { code: 500, description: 'no headers' };
  if (code === NOT_FOUND) return undefined;
  throw busErrorOfFault(what, { code, err_code: 0, description });
}

/** Headers that a direct get adds to those of the message. */
const DIRECT_GET_HEADERS = [
  'Nats-Stream',
  'Nats-Subject',
  'Nats-Sequence',
  'Nats-Time-Stamp',
  'Nats-Num-Pending',
  'Nats-UpTo-Sequence',
  'Nats-Last-Sequence',
];

/** A message as a direct get gives it. */
export function toStoredMessage(
  message: {
    readonly subject: string;
    readonly seq: number;
    readonly time: Date;
    readonly header: MsgHdrs;
    readonly data: Uint8Array;
  },
  stream: StreamName,
): StoredMessage {
  const headers = fromHeaders(message.header);
  for (const name of DIRECT_GET_HEADERS) delete headers[name];
  return {
    stream,
    subject: message.subject,
    headers,
    data: message.data,
    streamSequence: message.seq,
    storedAtUnixMs: message.time.getTime(),
  };
}
