import { CHANGE_TYPE, type Change } from '../../shared/domain/change.ts';
import { type CloudEvent, encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { changeSubject } from '../../shared/domain/subjects.ts';
import { defineWorker } from '../../shared/runtime/define-worker.ts';
import { retrying } from '../../shared/runtime/retrying.ts';
import { manifest } from './manifest.ts';

/** A change is told on before the next one is read, so none is lost between the API server and the stream. */
export const connectionWatch = defineWorker({
  manifest,
  async run({ feed, bus, clock, meter, log }, _settings, signal) {
    await feed.run(async (change) => {
      const message = encodeCloudEvent(changeSubject(change.kind, change.object.metadata), changeEvent(change));
      await retrying(
        async () => {
          const { duplicate } = await bus.publish(message);
          meter.count('wg_keepalive_events_total', {
            function: manifest.name,
            outcome: duplicate ? 'throttled' : 'written',
          });
        },
        { clock, log, signal, what: `publish ${message.subject}` },
      );
    }, signal);
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
