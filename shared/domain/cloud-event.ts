/**
 * CloudEvents 1.0 in the NATS protocol binding, binary mode: attributes in `ce-` headers, data as plain JSON.
 *
 * @see https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/nats-protocol-binding.md
 */

export type CloudEvent<Data = unknown> = {
  readonly id: string;
  /** URI reference of who says it, e.g. `/gateways/liqo-tenant-a/gw-a`. */
  readonly source: string;
  readonly type: string;
  /** RFC 3339; a label, never an input of a decision. */
  readonly time?: string;
  readonly data: Data;
};

/** What travels over a bus: `Nats-Msg-Id` equals `ce-id`, so a repeat is dropped by the stream. */
export type BusMessage = {
  readonly subject: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly data: Uint8Array;
};

/** Largest data that any function takes; a Connection of 64 tunnels is about 32 KiB. */
export const MAX_EVENT_BYTES = 256 * 1024;

export const MESSAGE_ID_HEADER = 'Nats-Msg-Id';

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export function encodeCloudEvent(subject: string, event: CloudEvent): BusMessage {
  const headers: Record<string, string> = {
    'ce-specversion': '1.0',
    'ce-id': event.id,
    'ce-source': event.source,
    'ce-type': event.type,
    'content-type': 'application/json',
    [MESSAGE_ID_HEADER]: event.id,
  };
  if (event.time !== undefined) headers['ce-time'] = event.time;
  return { subject, headers, data: encoder.encode(JSON.stringify(event.data)) };
}

export type Decoded = { readonly event: CloudEvent } | { readonly error: string };

/** Never throws: what cannot be read comes back as an error that names the attribute and its value. */
export function decodeCloudEvent(message: BusMessage): Decoded {
  const { headers } = message;
  if (headers['ce-specversion'] !== '1.0') {
    return { error: `ce-specversion is ${JSON.stringify(headers['ce-specversion'])}, want "1.0"` };
  }
  const id = headers['ce-id'];
  const source = headers['ce-source'];
  const type = headers['ce-type'];
  if (!id) return { error: 'ce-id is missing' };
  if (!source) return { error: 'ce-source is missing' };
  if (!type) return { error: 'ce-type is missing' };
  let data: unknown;
  try {
    data = JSON.parse(decoder.decode(message.data));
  } catch (cause) {
    return { error: `data is not JSON: ${(cause as Error).message}` };
  }
  const time = headers['ce-time'];
  return { event: { id, source, type, data, ...(time === undefined ? {} : { time }) } };
}
