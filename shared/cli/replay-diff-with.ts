import { open } from 'node:fs/promises';
import type { ReplayStep, ReplaySummary } from '../domain/replay-step.ts';
import { formatStep } from '../domain/replay-text.ts';
import { StartError } from './errors.ts';
import type { LineOutput } from './line-output.ts';

const MAX_TOLD = 50;

type Line = ReplayStep | { readonly summary: ReplaySummary; readonly digest: string };

/** Holds a replay against what another one wrote with `--json`, step by step; both are in the order of the stream. */
export class OtherReplay {
  readonly #path: string;
  readonly #lines: AsyncIterator<Line>;
  #head: Line | undefined;
  #pending: ReplayStep[] = [];
  #differences = 0;

  private constructor(path: string, lines: AsyncIterator<Line>) {
    this.#path = path;
    this.#lines = lines;
  }

  /** @throws StartError if there is no such file, or it is not what `replay --json` writes */
  static async open(path: string): Promise<OtherReplay> {
    const other = new OtherReplay(path, readLines(path));
    await other.#next();
    if (other.#head === undefined)
      throw new StartError(`--diff-with ${path}: is empty; want the output of replay --json`);
    return other;
  }

  step(step: ReplayStep): void {
    this.#pending.push(step);
  }

  /** Compares what has come so far. */
  async compare(output: LineOutput): Promise<void> {
    const pending = this.#pending;
    this.#pending = [];
    for (const step of pending) {
      for (;;) {
        const head = this.#head;
        if (head === undefined || 'summary' in head || order(head, step) > 0) {
          this.#tell(output, `only here   ${formatStep(step)}`);
          break;
        }
        await this.#next();
        if (order(head, step) < 0) {
          this.#tell(output, `only there  ${formatStep(head)}`);
          continue;
        }
        if (said(head) !== said(step)) {
          this.#tell(output, `here        ${formatStep(step)}`, `there       ${formatStep(head)}`);
        }
        break;
      }
    }
  }

  /** @returns whether the two differ */
  async finish(output: LineOutput, summary: ReplaySummary): Promise<boolean> {
    await this.compare(output);
    for (; this.#head !== undefined && !('summary' in this.#head); await this.#next()) {
      this.#tell(output, `only there  ${formatStep(this.#head)}`);
    }
    const there = this.#head?.summary;
    if (there === undefined)
      throw new StartError(`--diff-with ${this.#path}: has no summary at its end: is it complete?`);
    const differs = this.#differences > 0 || JSON.stringify(there) !== JSON.stringify(summary);
    if (this.#differences > MAX_TOLD) output.line(`and ${this.#differences - MAX_TOLD} more differences`);
    if (differs && this.#differences === 0) output.line('the steps agree, the ends differ');
    output.line(differs ? 'they differ' : 'they agree');
    return differs;
  }

  #tell(output: LineOutput, ...lines: readonly string[]): void {
    this.#differences += 1;
    if (this.#differences <= MAX_TOLD) for (const line of lines) output.line(line);
  }

  async #next(): Promise<void> {
    const { value, done } = await this.#lines.next();
    this.#head = done ? undefined : value;
  }
}

/** By event, and of one event in the order in which a replay tells its steps. */
function order(a: ReplayStep, b: ReplayStep): number {
  return a.sequence - b.sequence || rank(a) - rank(b);
}

function rank({ kind, function: name }: ReplayStep): number {
  if (name === 'connection-aggregate') return 3;
  return kind === 'assumed' ? 0 : kind === 'missing' ? 1 : 2;
}

/** Numbers of steps shift where one is more or less: that is told once, not for all that follow. */
function said({ step: _, ...rest }: ReplayStep): string {
  return JSON.stringify(rest);
}

async function* readLines(path: string): AsyncGenerator<Line> {
  const file = await open(path).catch((cause: Error) => {
    throw new StartError(`--diff-with ${path}: ${cause.message}`, { cause });
  });
  let number = 0;
  for await (const text of file.readLines()) {
    number += 1;
    yield parseLine(path, number, text);
  }
}

function parseLine(path: string, number: number, text: string): Line {
  let json: Partial<ReplayStep & { readonly summary: ReplaySummary }> | null = null;
  try {
    json = JSON.parse(text) as Partial<ReplayStep>;
  } catch {}
  if (json !== null && typeof json === 'object') {
    const isStep = typeof json.step === 'number' && typeof json.sequence === 'number' && typeof json.kind === 'string';
    if (isStep || typeof json.summary === 'object') return json as Line;
  }
  throw new StartError(`--diff-with ${path}: line ${number} is not what replay --json writes`);
}
