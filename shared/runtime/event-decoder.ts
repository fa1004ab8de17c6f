import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { type BusMessage, type CloudEvent, decodeCloudEvent, MAX_EVENT_BYTES } from '../domain/cloud-event.ts';
import { encodeToken, endsWithNames } from '../domain/subject-token.ts';
import type { EventContract } from './define-function.ts';

type FaultReason = 'Malformed' | 'UnknownType' | 'Oversized' | 'SchemaViolation' | 'ForeignSubject';

export type DecodeResult =
  | { readonly event: CloudEvent }
  | {
      readonly error: {
        readonly reason: FaultReason;
        readonly message: string;
      };
    };

export type EventDecoder = (message: BusMessage) => DecodeResult;

/** Bytes in, a checked event or a named fault out; never throws. Schemas are compiled once. */
export function eventDecoder(contracts: readonly EventContract[]): EventDecoder {
  const check = eventChecker(contracts);
  const byType = new Map(contracts.map((contract) => [contract.type, contract]));
  return (message) => {
    if (message.data.byteLength > MAX_EVENT_BYTES) {
      return fault('Oversized', `${message.data.byteLength} bytes, at most ${MAX_EVENT_BYTES}`);
    }
    const decoded = decodeCloudEvent(message);
    if ('error' in decoded) return fault('Malformed', decoded.error);
    const checked = check(decoded.event);
    if ('error' in checked) return checked;
    const { type, data } = checked.event;
    const names = byType.get(type)?.about?.(data);
    if (names === undefined || endsWithNames(message.subject, names)) return checked;
    const tokens = names.map(encodeToken).join('.');
    return fault('ForeignSubject', `the data is about ${tokens}, which ${message.subject} does not end with`);
  };
}

/** A part of {@link eventDecoder}: of an event that is decoded already, whether it is one of the contracts'. */
export function eventChecker(contracts: readonly EventContract[]): (event: CloudEvent) => DecodeResult {
  const ajv = new Ajv2020({ discriminator: true, allowUnionTypes: true });
  const validators = new Map<string, ValidateFunction>(
    contracts.map(({ type, schema }) => [type, ajv.compile(schema)]),
  );
  return (event) => {
    const validate = validators.get(event.type);
    if (validate === undefined) {
      return fault(
        'UnknownType',
        `ce-type is ${JSON.stringify(event.type)}, want ${[...validators.keys()].join(' or ')}`,
      );
    }
    if (!validate(event.data)) return fault('SchemaViolation', describe(validate.errors ?? []));
    return { event };
  };
}

function fault(reason: FaultReason, message: string): DecodeResult {
  return { error: { reason, message } };
}

/** The validator's paths and words: `/rttNs must be integer`. */
function describe(errors: readonly ErrorObject[]): string {
  return errors.map((error) => `${error.instancePath || '/'} ${error.message ?? error.keyword}`).join('; ');
}
