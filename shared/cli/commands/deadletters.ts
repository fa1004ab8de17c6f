import { NatsBus } from '../../adapters/nats-bus.ts';
import { NatsHistory } from '../../adapters/nats-history.ts';
import { createPinoLogger } from '../../adapters/pino-logger.ts';
import { systemClock } from '../../adapters/system-clock.ts';
import type { OpenLetter } from '../../domain/dead-letter.ts';
import { textTable } from '../../domain/text-table.ts';
import type { StoredMessage } from '../../ports/event-bus.ts';
import { DeadLetterBox, RetryError } from '../../runtime/dead-letter-box.ts';
import type { Run } from '../command-table.ts';
import { untilConnected } from '../connect-nats.ts';
import { StartError, UsageError } from '../errors.ts';
import { LineOutput } from '../line-output.ts';
import { natsFromOptions } from '../nats-from-options.ts';
import { reportingFaults } from '../replay-source.ts';
import { abortOnStopSignal } from '../shutdown.ts';

const WANT = 'want list, show SEQUENCE, retry SEQUENCE… or retry all';

type Order =
  | { readonly verb: 'list' }
  | { readonly verb: 'show' | 'retry'; readonly sequences: readonly number[] | 'all' };

/** Shows what no function could take, and gives it to the functions again. */
export const run: Run<'deadletters'> = async (options, operands) => {
  const order = orderOf(operands);
  const log = createPinoLogger({ level: options.logLevel });
  const stop = abortOnStopSignal(log);
  return reportingFaults(async () => {
    const bus = NatsBus.open(natsFromOptions(options, { role: 'deadletters' }), systemClock, log);
    try {
      await untilConnected(bus.link, options.natsServers, { stop });
      const box = new DeadLetterBox({ bus, history: new NatsHistory(bus.link, systemClock), clock: systemClock });
      const output = new LineOutput(process.stdout);
      const isDone = await carryOut(order, { box, output, json: options.json, stop });
      await output.flush();
      return isDone ? 0 : 1;
    } finally {
      await bus.close();
    }
  });
};

function orderOf([verb, ...rest]: readonly string[]): Order {
  if (verb === undefined) throw new UsageError(`what to do is missing: ${WANT}`);
  if (verb === 'list' && rest.length === 0) return { verb };
  if (verb === 'retry' && rest.length === 1 && rest[0] === 'all') return { verb, sequences: 'all' };
  if ((verb !== 'show' && verb !== 'retry') || rest.length === 0 || (verb === 'show' && rest.length > 1)) {
    throw new UsageError(`${JSON.stringify([verb, ...rest].join(' '))}: ${WANT}`);
  }
  return { verb, sequences: rest.map(sequenceOf) };
}

function sequenceOf(text: string): number {
  const sequence = Number(text);
  if (Number.isSafeInteger(sequence) && sequence > 0) return sequence;
  throw new UsageError(`${JSON.stringify(text)}: want the sequence of a letter, as list shows it`);
}

type Means = {
  readonly box: DeadLetterBox;
  readonly output: LineOutput;
  readonly json: boolean;
  readonly stop: AbortSignal;
};

async function carryOut(order: Order, means: Means): Promise<boolean> {
  const open = await means.box.open(means.stop);
  if (order.verb === 'list') return list(open, means);
  const wanted = order.sequences === 'all' ? open : order.sequences.map((sequence) => letterIn(open, sequence));
  return order.verb === 'show' ? show(wanted, means) : retry(wanted, means);
}

function letterIn(open: readonly OpenLetter[], sequence: number): OpenLetter {
  const letter = open.find((candidate) => candidate.sequence === sequence);
  if (letter !== undefined) return letter;
  throw new StartError(`there is no dead letter ${sequence}, or it was retried: see wg-keepalive deadletters list`);
}

function list(open: readonly OpenLetter[], { output, json }: Means): boolean {
  if (json) {
    output.line(JSON.stringify(open.map(({ letter: _, ...about }) => about)));
    return true;
  }
  const rows = open.map(({ sequence, at, function: name, reason, stream, streamSequence, message }) => [
    ...[`${sequence}`, at, name, reason, `${stream}/${streamSequence}`, message],
  ]);
  for (const line of textTable([['SEQUENCE', 'AT', 'FUNCTION', 'REASON', 'EVENT', 'WHAT'], ...rows])) output.line(line);
  output.line(open.length === 0 ? 'no dead letters' : `${open.length} dead letters`);
  return true;
}

async function show([letter]: readonly OpenLetter[], { box, output, json, stop }: Means): Promise<boolean> {
  if (letter === undefined) return false;
  const original = await box.original(letter, stop);
  const { letter: _, ...about } = letter;
  const event = original && { subject: original.subject, headers: original.headers, data: textOf(original) };
  if (json) {
    output.line(JSON.stringify({ ...about, ...(event && { event }) }));
    return true;
  }
  for (const [name, value] of Object.entries(about)) output.line(`${name}: ${value}`);
  if (event === undefined) {
    output.line(`${letter.stream} no longer keeps the event`);
    return true;
  }
  output.line(`subject: ${event.subject}`);
  for (const [name, value] of Object.entries(event.headers)) output.line(`header ${name}: ${value}`);
  output.line('');
  output.line(event.data);
  return true;
}

/** As text where it is some, else in base64. */
function textOf({ data }: StoredMessage): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(data);
  } catch {
    return `base64 ${Buffer.from(data).toString('base64')}`;
  }
}

/** @returns whether all of them could be */
async function retry(letters: readonly OpenLetter[], { box, output, json, stop }: Means): Promise<boolean> {
  const results: object[] = [];
  let isDone = true;
  for (const letter of letters) {
    const { sequence } = letter;
    try {
      const { stream, sequence: streamSequence } = await box.retry(letter, stop);
      results.push({ sequence, stream, streamSequence });
      if (!json) output.line(`${sequence}: published again as ${stream}/${streamSequence}`);
    } catch (error) {
      if (!(error instanceof RetryError)) throw error;
      isDone = false;
      results.push({ sequence, error: error.message });
      if (!json) output.line(`${sequence}: not retried, ${error.message}`);
    }
  }
  if (json) output.line(JSON.stringify(results));
  else if (letters.length === 0) output.line('no dead letters');
  return isDone;
}
