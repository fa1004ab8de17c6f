import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { seedFileOf, usersOf } from '../../infra/nats/make-users.ts';
import { NatsBus } from '../../shared/adapters/nats-bus.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { encodeCloudEvent } from '../../shared/domain/cloud-event.ts';
import { DEAD_LETTER_TYPE, deadLetterOf } from '../../shared/domain/dead-letter.ts';
import { OBSERVATION_TYPE } from '../../shared/domain/observation.ts';
import { deadLetterSubject, observationSubject } from '../../shared/domain/subjects.ts';
import { describeReal } from '../support/real-parts.ts';
import { SecuredNats } from '../support/secured-nats.ts';
import { silentLogger } from '../support/silent-logger.ts';

const MAIN = join(import.meta.dirname, '../../shared/cli/main.ts');
const REF = { namespace: 'liqo-tenant-rome', name: 'gw-rome' };
const exec = promisify(execFile);

type Ended = { readonly code: number; readonly stdout: string; readonly stderr: string };

await describeReal('wg-keepalive deadletters, as the NATS user that it is', ['nats-server', 'openssl'], () => {
  let nats: SecuredNats;
  let gateway: NatsBus;
  let tunnelStatus: NatsBus;

  async function deadletters(...args: string[]): Promise<Ended> {
    const user = { role: 'deadletters' } as const;
    const flags = [
      ...[`--nats-url=${nats.server.url}`, `--nats-credentials=${seedFileOf(nats.folder, user)}`],
      `--nats-ca=${nats.caFile}`,
    ];
    try {
      return { code: 0, ...(await exec(process.execPath, [MAIN, 'deadletters', ...args, ...flags])) };
    } catch (error) {
      return error as Ended;
    }
  }

  beforeAll(async () => {
    nats = await SecuredNats.start(usersOf([REF.namespace]));
    const open = async (user: Parameters<SecuredNats['optionsOf']>[0]) => {
      const bus = NatsBus.open(nats.optionsOf(user), systemClock, silentLogger);
      await bus.link.whenUp();
      return bus;
    };
    gateway = await open({ role: 'gateway', namespace: REF.namespace });
    tunnelStatus = await open({ role: 'function', name: 'tunnel-status' });
    const event = { id: 'run.1', source: '/test', type: OBSERVATION_TYPE, data: { kind: 'pang' } };
    const message = encodeCloudEvent(observationSubject(REF, 'liqo-tunnel'), event);
    const { sequence: streamSequence } = await gateway.publish(message);
    const subject = message.subject.replace('keepalive.', 'observations.7.');
    const fault = {
      function: 'tunnel-status',
      reason: 'SchemaViolation',
      message: '/kind is no kind',
      at: '2026-01-01',
    };
    const data = deadLetterOf({ ...message, subject, stream: 'OBSERVATIONS', streamSequence }, fault);
    const letter = { id: 'letter', source: '/test', type: DEAD_LETTER_TYPE, data };
    await tunnelStatus.publish(encodeCloudEvent(deadLetterSubject('tunnel-status'), letter));
  });
  afterAll(async () => {
    await Promise.all([gateway.close(), tunnelStatus.close()]);
    await nats[Symbol.asyncDispose]();
  });

  it('lists, shows and retries, and then has nothing to list', async () => {
    const listed = await deadletters('list');
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    expect(listed.stdout).toMatch(/^SEQUENCE +AT +FUNCTION +REASON +EVENT +WHAT\n1 +2026-01-01 +tunnel-status +Schema/);
    expect(listed.stdout).toContain('OBSERVATIONS/1  /kind is no kind\n1 dead letters\n');

    const shown = await deadletters('show', '1');
    expect(shown.stdout).toContain('subject: observations.7.liqo-tenant-rome.gw-rome.liqo-tunnel\n');
    expect(shown.stdout).toContain('header ce-id: run.1\n');
    expect(shown.stdout).toMatch(/\n\n\{"kind":"pang"\}\n$/);

    expect(await deadletters('retry', '1')).toMatchObject({
      code: 0,
      stdout: '1: published again as OBSERVATIONS/2\n',
    });
    expect(await deadletters('list', '--json')).toMatchObject({ code: 0, stdout: '[]\n' });
    expect(await deadletters('retry', 'all')).toMatchObject({ code: 0, stdout: 'no dead letters\n' });
  });

  it('lists, shows and refuses to retry what is no letter', async () => {
    await tunnelStatus.publish({
      ...{ subject: deadLetterSubject('tunnel-status'), headers: {}, data: new TextEncoder().encode('junk{') },
    });
    const listed = await deadletters('list');
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    expect(listed.stdout).toMatch(/\n3 +\S+ +- +Unreadable +DEAD_LETTERS\/3 +on dead\.tunnel-status: no JSON: /);
    const shown = await deadletters('show', '3');
    expect(shown.code).toBe(0);
    expect(shown.stdout).toMatch(/\nsubject: dead\.tunnel-status\n(?:header .+\n)*\njunk\{\n$/);
    const retried = await deadletters('retry', '3');
    expect(retried).toMatchObject({ code: 1, stderr: '' });
    expect(retried.stdout).toMatch(/^3: not retried, it is no dead letter, and goes with its age \(on dead/);
  });

  it.each([
    [[], 'what to do is missing: want list, show SEQUENCE, retry SEQUENCE… or retry all'],
    [['drop', '1'], '"drop 1": want list'],
    [['show'], '"show": want list'],
    [['retry', 'one'], '"one": want the sequence of a letter, as list shows it'],
    [['show', '77'], 'there is no dead letter 77, or it was retried'],
  ])('ends with exit code 2 and one line on %j', async (args, message) => {
    const { code, stdout, stderr } = await deadletters(...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
    expect(stderr.trimEnd()).not.toContain('\n');
  });
});
