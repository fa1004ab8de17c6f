import { CaptureError, readCapture } from '../../adapters/capture-file.ts';
import { CaptureSides } from '../../domain/capture-side.ts';
import { CaptureVerdicts } from '../../domain/capture-verdicts.ts';
import type { RecordedMessage } from '../../domain/recorded-message.ts';
import type { UnixNanos } from '../../domain/rfc3339-nanos.ts';
import { decodeUdp } from '../../domain/udp-packet.ts';
import type { OptionsOf, Run } from '../command-table.ts';
import { StartError } from '../errors.ts';
import { checkOutputFile, createWriter, recordingHeader } from '../write-recording.ts';

/** The Connection that a capture stands for, where the user gives no other. */
const CAPTURED = { namespace: 'capture', name: 'gw-capture' };
const BATCH = 1_000;

/** Two passes over the capture: who captured it, then what the gateway there would have said. */
export const run: Run<'import'> = async (options) => {
  try {
    return await importCapture(options);
  } catch (error) {
    throw error instanceof CaptureError ? new StartError(error.message, { cause: error }) : error;
  }
};

async function importCapture(options: OptionsOf<'import'>): Promise<number> {
  const { captureFile, outputFile, pingPort, pingIntervalMs, pingLossThreshold, localAddresses = [] } = options;
  await checkOutputFile(outputFile);
  const sides = new CaptureSides(localAddresses, pingPort);
  const tellCut = (message: string) => process.stderr.write(`note: ${message}; all before it is taken\n`);
  for await (const { packet, at } of packetsOf(captureFile, tellCut)) sides.take(packet, at);
  const found = sides.read();
  if (found.length === 0) {
    throw new StartError(`${captureFile}: holds no PING to or from port ${pingPort}; is --ping-port right?`);
  }
  const addresses = sides.addresses();
  const stranger = localAddresses.find((address) => !addresses.includes(address));
  if (stranger !== undefined) {
    throw new StartError(
      `--local ${stranger}: sends and gets no PING in ${captureFile}; there are ${addresses.join(', ')}`,
    );
  }
  for (const { local, peer, how } of found) process.stderr.write(`${local} asks ${peer} (${HOW[how]})\n`);

  const settings = { intervalMs: pingIntervalMs, lossThreshold: pingLossThreshold };
  const connection = options.connectionRef ?? CAPTURED;
  const verdicts = new CaptureVerdicts({ connection, sides: found, settings, pingPort });
  const header = recordingHeader({ source: 'capture', settings: { pingIntervalMs, pingLossThreshold } });
  const writer = await createWriter(outputFile, header);
  try {
    let batch: RecordedMessage[] = [];
    let last: UnixNanos = { seconds: 0, nanos: 0 };
    for await (const { packet, at } of packetsOf(captureFile, () => {})) {
      batch.push(...verdicts.take(packet, at));
      last = at;
      if (batch.length < BATCH) continue;
      await writer.messages(batch);
      batch = [];
    }
    await writer.messages([...batch, ...verdicts.finish(last)]);
    await writer.finish();
  } catch (error) {
    await writer.abandon();
    throw error;
  }
  const { pings, pongs, peerPings, unusedPongs, malformed, cut } = verdicts.counts;
  process.stdout.write(
    `${outputFile}: ${pings} PINGs, ${pongs} PONGs that counted, ${unusedPongs} that did not, ` +
      `${peerPings} PINGs of the peer, ${malformed} malformed, ${cut} cut off by the capture\n`,
  );
  return 0;
}

const HOW = {
  given: 'by --local',
  direction: 'the capture tells directions',
  answers: "the other side's PINGs are answered here at once",
  guess: 'a guess: nothing tells; --local ADDRESS says which side captured',
} as const;

async function* packetsOf(path: string, onCut: (message: string) => void) {
  for await (const { linkType, bytes, at, direction } of readCapture(path, onCut)) {
    const packet = decodeUdp(linkType, bytes);
    if (packet !== undefined) yield { packet: direction === undefined ? packet : { ...packet, direction }, at };
  }
}
