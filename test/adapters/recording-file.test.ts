import { type FileHandle, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BlockedGzipWriter } from '../../shared/adapters/blocked-gzip.ts';
import { openRecording, RecordingError, RecordingWriter } from '../../shared/adapters/recording-file.ts';
import type { Connection } from '../../shared/domain/connection.ts';
import type { RecordedMessage } from '../../shared/domain/recorded-message.ts';
import { RECORDING_FORMAT, type RecordingHeader } from '../../shared/domain/recording.ts';
import { syntheticObservations } from '../support/synthetic-observations.ts';

const HEADER: RecordingHeader = {
  format: RECORDING_FORMAT,
  version: 1,
  createdAt: '2026-01-01T00:00:00Z',
  createdBy: 'wg-keepalive test',
  source: 'lab',
  window: {},
  settings: { pingIntervalMs: 2_000 },
  versions: { node: '24' },
  anonymized: false,
  notes: ['a note'],
};
const CONNECTION = {
  metadata: {
    ...{ namespace: 'ns', name: 'gw-a', uid: 'u', resourceVersion: '7' },
    annotations: { password: 'hunter2' },
    managedFields: [{ manager: 'liqo-tunnel' }],
  },
  spec: { type: 'Server', gatewayRef: { apiVersion: 'v', kind: 'WgGatewayServer', name: 'a', namespace: 'ns' } },
  status: { value: 'Connected' },
} as unknown as Connection;
const MALFORMED: RecordedMessage = {
  ...{ stream: 'OBSERVATIONS', sequence: 9_000_000, storedAtUnixMs: 1_800_000_000_000 },
  raw: { subject: 'observations.1.a.b.c', headers: { 'ce-id': 'x' }, data: new Uint8Array([0xff, 0, 1]) },
};

let folder: string;
const at = (name: string) => join(folder, name);
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'wgk-recording-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function write(
  name: string,
  messages: Iterable<RecordedMessage>,
  header: RecordingHeader = HEADER,
): Promise<string> {
  const writer = await RecordingWriter.create(at(name), header);
  await writer.messages(messages);
  await writer.messages([MALFORMED]);
  await writer.connection(CONNECTION);
  await writer.finish();
  return at(name);
}

async function readAll(path: string): Promise<RecordedMessage[]> {
  const all: RecordedMessage[] = [];
  for await (const batch of (await openRecording(path)).messages('OBSERVATIONS')) all.push(...batch);
  return all;
}

const faultOf = (path: string) =>
  readAll(path).then(
    () => 'none',
    (error: Error) => error,
  );
const synthetic = () => syntheticObservations({ connections: 3, tunnels: 4, intervalMs: 2_000, rounds: 400 });

/** A block file from any text, checksums right: what somebody with an editor could make. */
async function pack(name: string, text: string): Promise<string> {
  const { open } = await import('node:fs/promises');
  const file = await open(at(name), 'w');
  const gzip = new BlockedGzipWriter(file);
  gzip.write(Buffer.from(text));
  await gzip.end();
  await file.close();
  return at(name);
}

describe('a recording', () => {
  it('gives back what was written, malformed events and connections too', async () => {
    const messages = [...synthetic()];
    const path = await write('good', messages);
    expect(await readAll(path)).toEqual([...messages, MALFORMED]);
    const recording = await openRecording(path);
    expect(recording.header).toEqual(HEADER);
    const [connection] = await recording.connections();
    expect(connection?.metadata).toEqual({
      namespace: 'ns',
      name: 'gw-a',
      uid: 'u',
      resourceVersion: '7',
      managedFields: [{ manager: 'liqo-tunnel' }],
    });
    expect(await readdir(folder)).not.toContain('good.partial');
  });

  it('is a gzip file of JSON lines to everybody else, and holds no annotation', async () => {
    const text = gunzipSync(await readFile(await write('plain', synthetic()))).toString();
    const lines = text.trimEnd().split('\n');
    expect(lines.every((line) => typeof JSON.parse(line) === 'object')).toBe(true);
    expect(JSON.parse(lines.at(-1) as string)).toMatchObject({ end: { lines: lines.length - 1 } });
    expect(text).not.toContain('hunter2');
  });

  it('loses nothing when the disk takes a part of a write', async () => {
    const { open } = await import('node:fs/promises');
    const file = await open(at('short'), 'w');
    const taking5Bytes: Pick<FileHandle, 'writev' | 'writeFile'> = {
      writev: async (blocks) => {
        const { bytesWritten } = await file.write((blocks[0] as Buffer).subarray(0, 5));
        return { bytesWritten, buffers: blocks };
      },
      writeFile: async (bytes) => await file.writeFile(bytes),
    };
    const gzip = new BlockedGzipWriter(taking5Bytes);
    const plain = Buffer.alloc(200_000, 'a line\n');
    gzip.write(plain);
    await gzip.end();
    await file.close();
    expect(gunzipSync(await readFile(at('short'))).equals(plain)).toBe(true);
  });

  it('leaves nothing under its name when it is given up', async () => {
    const writer = await RecordingWriter.create(at('given-up'), HEADER);
    await writer.messages(synthetic());
    await writer.abandon();
    expect((await readdir(folder)).filter((name) => name.startsWith('given-up'))).toEqual([]);
  });

  it('leaves nothing beside its name when that cannot be taken', async () => {
    const writer = await RecordingWriter.create(at('taken'), HEADER);
    await mkdir(at('taken'));
    await expect(writer.finish()).rejects.toThrow(/EISDIR/);
    expect((await readdir(folder)).filter((name) => name.startsWith('taken'))).toEqual(['taken']);
  });

  it.each([
    ['is empty', Buffer.alloc(0), /byte 0/],
    ['is text', Buffer.from('hello world, this is no recording'), /not a recording.*byte 0/],
    ['is plain JSON', Buffer.from('{"format":"wg-keepalive-recording"}'), /begins like JSON/],
    ['was packed anew', gzipSync('{"format":"wg-keepalive-recording","version":1}\n'), /packed anew/],
    ['is a capture', Buffer.from('d4c3b2a1020004000000000000000000', 'hex'), /import --pcap/],
  ])('says what it is when the file %s', async (what, bytes, message) => {
    await writeFile(at(`foreign ${what}`), bytes);
    expect(String(await faultOf(at(`foreign ${what}`)))).toMatch(message);
  });

  it.each([
    ['another format', '{"format":"something"}\n', /line 1: format is "something"/],
    [
      'a newer version',
      `{"format":"${RECORDING_FORMAT}","version":2}\n`,
      /line 1: format version 2 is newer.*newer wg-keepalive/,
    ],
    ['no header', '\n', /line 1: is not JSON/],
    ['a bad line', `${JSON.stringify(HEADER)}\n{"stream":"OBSERVATIONS","sequence":0}\n`, /line 2: sequence is 0/],
    ['no end', `${JSON.stringify(HEADER)}\n`, /line 2: is missing/],
    ['a line without an end', `${JSON.stringify(HEADER)}\n{"stre`, /line 2: has no end/],
    [
      'an end that counts wrong',
      `${JSON.stringify(HEADER)}\n{"end":{"lines":9,"sha256":""}}\n`,
      /line 2: the end counts 9 lines, 1 are there/,
    ],
    [
      'an end that does not match',
      `${JSON.stringify(HEADER)}\n{"end":{"lines":1,"sha256":"00"}}\n`,
      /line 2: .*SHA-256.*altered/,
    ],
  ])('names the line of %s', async (what, text, message) => {
    const error = await faultOf(await pack(`line ${what}`, text));
    expect(error).toBeInstanceOf(RecordingError);
    expect(String(error)).toMatch(message);
  });

  it('sees that a line was altered though all checksums of blocks are right', async () => {
    const text = gunzipSync(await readFile(await write('to-alter', synthetic()))).toString();
    const altered = await pack('altered', text.replace('"rttNs":10', '"rttNs":20'));
    expect(String(await faultOf(altered))).toMatch(/altered/);
    const swapped = text.split('\n');
    [swapped[5], swapped[6]] = [swapped[6] as string, swapped[5] as string];
    expect(String(await faultOf(await pack('swapped', swapped.join('\n'))))).toMatch(
      /line 7: sequence 5 of OBSERVATIONS/,
    );
  });

  it('tells a file cut off anywhere, with the place', async () => {
    const whole = await readFile(await write('whole', synthetic()));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.length - 1 }), async (length) => {
        await writeFile(at('cut'), whole.subarray(0, length));
        const error = await faultOf(at('cut'));
        expect(error).toBeInstanceOf(RecordingError);
        expect(String(error)).toMatch(length === 0 ? /byte 0/ : /cut off: .*\(byte \d+\), after \d+ complete lines/);
      }),
      { numRuns: 60 },
    );
  });

  it('tells a file with any bit flipped, with the place', async () => {
    const whole = await readFile(await write('bits', synthetic()));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.length * 8 - 1 }), async (bit) => {
        const flipped = Buffer.from(whole);
        flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
        await writeFile(at('flipped'), flipped);
        const error = await faultOf(at('flipped'));
        // Deflate fills its last byte up by bits that say nothing.
        if (error === 'none') return expect(gunzipSync(flipped)).toEqual(gunzipSync(whole));
        expect(error).toBeInstanceOf(RecordingError);
        expect(String(error)).toMatch(/\(byte \d+\)|line \d+/);
      }),
      { numRuns: 120 },
    );
  });

  it('counts the lines before the damage, and says so where something follows the end', async () => {
    const whole = await readFile(await write('to-damage', synthetic()));
    const lines = gunzipSync(whole).toString().trimEnd().split('\n').length;
    for (const more of [whole, Buffer.from('junk')]) {
      await writeFile(at('followed'), Buffer.concat([whole, more]));
      expect(String(await faultOf(at('followed')))).toContain(
        `damaged: something follows the end: another recording, or what is none (byte ${whole.length}), after ${lines} complete lines`,
      );
    }
    const second = whole.readUInt16LE(16) + 1; // where the second block starts
    const before = gunzipSync(whole.subarray(0, second)).toString().split('\n').length - 1;
    const altered = Buffer.from(whole);
    altered[second + 40] = (altered[second + 40] as number) ^ 1;
    await writeFile(at('altered-block'), altered);
    expect(before).toBeGreaterThan(10);
    expect(String(await faultOf(at('altered-block')))).toContain(`(byte ${second}), after ${before} complete lines`);
  });

  it('never fails in another way, whatever bytes it is given', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.uint8Array({ maxLength: 400 }), fc.string()), async (content) => {
        await writeFile(at('random'), content);
        expect(await faultOf(at('random'))).toBeInstanceOf(RecordingError);
        await pack('random-lines', `${JSON.stringify(HEADER)}\n${Buffer.from(content).toString()}\n`);
        expect(await faultOf(at('random-lines'))).toBeInstanceOf(RecordingError);
      }),
      { numRuns: 60 },
    );
  });
});
