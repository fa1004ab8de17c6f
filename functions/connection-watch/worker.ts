import { CHANGE_TYPE, type Change, changeSchema } from '../../shared/domain/change.ts';
import { type CloudEvent, encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import type { OutcomeName } from '../../shared/domain/decision.ts';
import { changeSubject } from '../../shared/domain/subjects.ts';
import { BusError } from '../../shared/ports/event-bus.ts';
import type { FunctionPorts } from '../../shared/ports/function-ports.ts';
import { defineWorker } from '../../shared/runtime/define-worker.ts';
import { eventDecoder } from '../../shared/runtime/event-decoder.ts';
import { retrying } from '../../shared/runtime/retrying.ts';
import { manifest } from './manifest.ts';

const CANNOT_BE_TOLD =
  'object larger than a message may be: no function hears of this change; make the object smaller, or raise max_payload of nats-server';

/**
 * A change is told on before the next one is read, so none is lost between the API server and the stream. What the stream
 * said last is where a replica takes up: deletions that nobody watched are told by whoever starts first after them.
 */
export const connectionWatch = defineWorker({
  manifest,
  async run({ feed, bus, clock, meter, log }, _settings, signal) {
    let told: readonly Change[] = [];
    const learn = async () => {
      told = await lastChanges(bus); // before the first list: what this says and that lacks is gone
    };
    await retrying(learn, { clock, log, signal, bus, what: 'read of the last changes' });
    const publish = async (change: Change) => {
      const message = encodeCloudEvent(changeSubject(change.kind, change.object.metadata), changeEvent(change));
      const count = (outcome: OutcomeName) =>
        meter.count('wg_keepalive_events_total', { function: manifest.name, outcome });
      await retrying(
        async () => {
          try {
            const { duplicate } = await bus.publish(message);
            count(duplicate ? 'throttled' : 'written');
          } catch (err) {
            if (!(err instanceof BusError) || err.code !== 'too-large') throw err;
            // Tried again it would be refused again, and hold up what is told of all others.
            count('invalid');
            log.error({ err, subject: message.subject, bytes: message.data.byteLength }, CANNOT_BE_TOLD);
          }
        },
        { clock, log, signal, bus, what: `publish ${message.subject}` },
      );
    };
    await feed.run(publish, signal, told);
  },
});

/** The id names this state of this object: what another replica has told already is dropped by the stream. */
function changeEvent(change: Change): CloudEvent<Change> {
  const { uid, resourceVersion, namespace } = change.object.metadata;
  const deleted = change.type === 'DELETED' ? '.deleted' : '';
  return {
    id: `${uid}.${resourceVersion}${deleted}`,
    source: `/kubernetes/${namespace}/${change.kind}`,
    type: CHANGE_TYPE,
    data: change,
  };
}

async function lastChanges(bus: FunctionPorts['bus']): Promise<readonly Change[]> {
  const decode = eventDecoder([{ type: CHANGE_TYPE, schema: changeSchema }]);
  const messages = await bus.lastMessages('CHANGES', 'changes.*.*.*');
  return messages.flatMap((message) => {
    const decoded = decode(message);
    return 'event' in decoded ? [decoded.event.data as Change] : [];
  });
}
