import { writeFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { runCommandLine } from '../../shared/cli/dispatch.ts';
import { encodePingMessage } from '../../shared/domain/ping-wire.ts';
import { ipPacket, pcapFile } from '../support/capture-writer.ts';
import { type Workspace, workspace } from '../support/recorded-world.ts';

const PORT = 12_345;
const [HERE, THERE] = [
  [169, 254, 18, 1],
  [169, 254, 18, 2],
];

/** Raw IP: PINGs of one side, each answered by the other. */
function capture(rounds: number): Buffer {
  const frames = Array.from({ length: rounds }, (_, round) => {
    const seconds = 1_800_000_000 + round;
    const frame = (msgType: 'PING' | 'PONG', nanos: number) => {
      const [from, to] = msgType === 'PING' ? [HERE, THERE] : [THERE, HERE];
      const payload = encodePingMessage({ clusterId: 'a', msgType, timeStamp: { seconds, nanos: 0 } });
      const end = (address: number[] | undefined) => ({ address: address ?? [], port: PORT });
      const bytes = ipPacket({ source: end(from), destination: end(to), payload });
      return { unixNs: BigInt(seconds) * 1_000_000_000n + BigInt(nanos), bytes };
    };
    return [frame('PING', 0), frame('PONG', 3_000_000)];
  });
  return pcapFile({ littleEndian: true, nanoseconds: true, linkType: 101 }, frames.flat());
}

describe('import', () => {
  let space: Workspace;
  let said = '';
  beforeAll(async () => {
    space = await workspace();
  });
  afterAll(() => space[Symbol.asyncDispose]());
  beforeEach(() => {
    said = '';
    for (const stream of [process.stdout, process.stderr])
      vi.spyOn(stream, 'write').mockImplementation((text) => {
        said += String(text);
        return true;
      });
  });
  afterEach(() => void vi.restoreAllMocks());

  async function imported(bytes: Uint8Array, ...flags: readonly string[]): Promise<number> {
    await writeFile(space.path('capture'), bytes);
    const [input, output] = [space.path('capture'), space.path('recording')];
    return runCommandLine(['import', '--pcap', input, '--output', output, ...flags], {});
  }

  it('refuses a --local that the capture does not know, and names those that it does', async () => {
    expect(await imported(capture(5), '--local', '169.254.18.1', '--local', '9.9.9.9')).toBe(2);
    expect(said).toMatch(
      /--local 9\.9\.9\.9: sends and gets no PING in .*; there are 169\.254\.18\.1, 169\.254\.18\.2\n$/,
    );
    expect(await imported(capture(5), '--local', '169.254.18.2')).toBe(0);
    expect(said).toContain('169.254.18.2 asks 169.254.18.1 (by --local)');
  });

  it('takes what is whole of a capture that was cut off, and says so once', async () => {
    expect(await imported(capture(5).subarray(0, -3))).toBe(0);
    expect(said).toMatch(/: 5 PINGs, 4 PONGs that counted/);
    expect(
      said.match(/^note: .*: byte \d+: the file is cut off within a packet: .*; all before it is taken$/gm),
    ).toHaveLength(1);
    expect(await imported(capture(5).subarray(0, 20))).toBe(2);
    expect(said).toMatch(/cut off within the header/);
  });
});
