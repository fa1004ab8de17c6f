import { readFile } from 'node:fs/promises';

export type InterfaceBytes = { readonly received: number; readonly transmitted: number };

/**
 * What the kernel has counted of a network interface since it was made, or `undefined` where there is no such one.
 *
 * @see https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-class-net-statistics
 */
export async function readInterfaceBytes(interfaceId: string): Promise<InterfaceBytes | undefined> {
  if (!/^[^/.][^/]*$/.test(interfaceId)) return undefined; // a file name and nothing else
  const read = async (counter: string) =>
    Number(await readFile(`/sys/class/net/${interfaceId}/statistics/${counter}`, 'utf8'));
  try {
    const [received, transmitted] = await Promise.all([read('rx_bytes'), read('tx_bytes')]);
    return { received, transmitted };
  } catch {
    return undefined;
  }
}
