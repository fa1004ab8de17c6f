import { glob, writeFile } from 'node:fs/promises';
import { StartError } from '../../shared/cli/errors.ts';

/** Wall clock of processes that start with its environment: libfaketime reads how far ahead it is from a file. */
export class SteppableClock {
  readonly environment: NodeJS.ProcessEnv;
  readonly #file: string;
  #aheadMs = 0;

  private constructor(library: string, file: string) {
    this.#file = file;
    this.environment = {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      DONT_FAKE_MONOTONIC: '1',
    };
  }

  /** @throws StartError where there is no libfaketime */
  static async create(file: string): Promise<SteppableClock> {
    for await (const library of glob('/usr/lib/*/faketime/libfaketimeMT.so.1')) {
      const clock = new SteppableClock(library, file);
      await clock.stepBy(0);
      return clock;
    }
    throw new StartError('wall clocks of real parts are stepped by libfaketime: apt-get install faketime');
  }

  async stepBy(ms: number): Promise<void> {
    this.#aheadMs += ms;
    await writeFile(this.#file, `${this.#aheadMs < 0 ? '' : '+'}${this.#aheadMs / 1_000}\n`);
  }
}
