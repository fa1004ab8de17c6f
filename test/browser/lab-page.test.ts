import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type EmbeddedLab, startEmbeddedLab } from '../../infra/lab/embedded-lab.ts';
import { startLabPage } from '../../infra/lab/lab-page.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { DEFAULT_PING_SETTINGS } from '../../shared/domain/ping-settings.ts';
import {
  expectAccessible,
  launchChromium,
  overflows,
  type PageLog,
  untilLive,
  watchPageLog,
} from '../support/browser.ts';
import { describeReal } from '../support/real-parts.ts';
import { silentLogger } from '../support/silent-logger.ts';

const TIMEOUT_MS = 30_000;
const root = join(import.meta.dirname, '../..');
const IMAGES = join(root, 'coverage/images');
/** `UPDATE_IMAGES=1` puts the picture, with some history, where the README shows it; otherwise no run changes it. */
const isForReadme = Boolean(process.env.UPDATE_IMAGES);
const PICTURE = join(isForReadme ? join(root, 'docs/images') : IMAGES, 'page.png');
const FRAME_MS = 1_000;
const HISTORY_MS = isForReadme ? 40_000 : 0;

await describeReal('the page of the lab, in Chromium', ['chromium'], () => {
  const cleanUp = new AsyncDisposableStack();
  let browser: Browser;
  let lab: EmbeddedLab;
  let url: string;
  let log: PageLog;
  let page: Page;

  beforeAll(async () => {
    await mkdir(IMAGES, { recursive: true });
    const ping = { ...DEFAULT_PING_SETTINGS, intervalMs: 200, lossThreshold: 5, updateStatusIntervalMs: 1_000 };
    const functions = { updateStatusIntervalMs: 1_000, gatewaySilentAfterMs: 60_000 };
    lab = cleanUp.use(await startEmbeddedLab({ tunnels: 3, replicas: 1, ping, functions, log: silentLogger }));
    const over = new AbortController();
    cleanUp.defer(() => over.abort());
    const bind = { host: '127.0.0.1', port: 0 };
    ({ url } = await startLabPage(lab, {
      clock: systemClock,
      bind,
      signal: over.signal,
      settings: { ping, functions },
    }));
    browser = await launchChromium();
    cleanUp.defer(() => browser.close());
    page = await open({ width: 1280, height: 900 });
  });
  afterAll(() => cleanUp.disposeAsync());
  afterEach(async () => {
    for (const interfaceId of ['liqo-tunnel', 'liqo-tunnel1']) await lab.restore(interfaceId);
  });

  async function open(
    viewport: { readonly width: number; readonly height: number },
    colorScheme: 'light' | 'dark' = 'light',
  ): Promise<Page> {
    const opened = await browser.newPage({ viewport, colorScheme });
    opened.setDefaultTimeout(TIMEOUT_MS);
    log = watchPageLog(opened, url);
    await opened.goto(url);
    await untilLive(opened, log);
    return opened;
  }

  const row = (interfaceId: string, of = 'liqo-tenant-milan/gw-milan') =>
    page.getByRole('article', { name: `Connection ${of}` }).locator(`[data-interface="${interfaceId}"].tunnel`);
  const shows = (interfaceId: string, value: string) =>
    page.locator(`[data-interface="${interfaceId}"].tunnel[data-value="${value}"]`).nth(1).waitFor(); // on both sides
  const click = (interfaceId: string, name: string) => row(interfaceId).getByRole('button', { name }).click();

  test('shows every tunnel, its latency, a chart and its status over time', async () => {
    await shows('liqo-tunnel2', 'Connected');
    await expect.poll(() => page.locator('#summary').textContent()).toBe('2 Connections: 2 Connected');
    for (const interfaceId of ['liqo-tunnel', 'liqo-tunnel1', 'liqo-tunnel2']) {
      await row(interfaceId).scrollIntoViewIfNeeded();
      await expect.poll(() => row(interfaceId).locator('.number').first().textContent()).toMatch(/^[\d.]+ (µs|ms)$/);
      await row(interfaceId).locator('canvas').last().waitFor();
      await expect
        .poll(() => row(interfaceId).getByRole('img').getAttribute('aria-label'))
        .toMatch(/^Status: .*Connected since \d\d:\d\d:\d\d$/);
    }
  });

  test('a tunnel that is cut by a click turns to Error with the reason in words, the others stay; healed, it comes back', async () => {
    await shows('liqo-tunnel1', 'Connected');
    await click('liqo-tunnel1', 'Cut: liqo-tunnel1');
    await page.getByText('cut liqo-tunnel1', { exact: true }).waitFor();
    await shows('liqo-tunnel1', 'Error');
    await expect
      .poll(() => row('liqo-tunnel1').locator('.reason').textContent())
      .toMatch(/^Lost: no PONG since \d\d:\d\d:\d\d/);
    await expect.poll(() => row('liqo-tunnel1').locator('.number').first().textContent()).toBe('–');
    await page
      .getByRole('article', { name: /gw-rome/ })
      .getByText(/1 of 3 tunnels failed/)
      .waitFor();
    await expect.poll(() => page.locator('#summary').textContent()).toBe('2 Connections: 2 Error');
    expect(await row('liqo-tunnel').getAttribute('data-value')).toBe('Connected');
    await page.locator('#feed li[data-change="Error"]').first().waitFor();
    await page.waitForTimeout(FRAME_MS); // the film of the past has a frame a second
    await click('liqo-tunnel1', 'Heal: liqo-tunnel1');
    await shows('liqo-tunnel1', 'Connected');
    await expect.poll(() => page.locator('#summary').textContent()).toBe('2 Connections: 2 Connected');
  });

  test('loss and delay by a click show in loss and latency', async () => {
    await click('liqo-tunnel', 'Delay 40 ms: liqo-tunnel');
    const ms = async () => Number.parseFloat((await row('liqo-tunnel').locator('.number').first().textContent()) ?? '');
    await expect.poll(ms).toBeGreaterThan(75); // there and back
    await click('liqo-tunnel', 'Lose 30 %: liqo-tunnel');
    await expect.poll(() => row('liqo-tunnel').locator('.loss').textContent()).toMatch(/^[1-9]\d* % lost$/);
    await expect.poll(() => row('liqo-tunnel').locator('.tools .on').count()).toBe(1); // the loss took the delay's place
  });

  test('by keyboard alone: a chart closes and opens, a function is killed, tunnels are scaled', async () => {
    const line = row('liqo-tunnel').getByRole('button', { expanded: true });
    await line.focus();
    await page.keyboard.press('Enter');
    await row('liqo-tunnel').locator('.figure').waitFor({ state: 'hidden' });
    await page.keyboard.press('Enter');
    await row('liqo-tunnel').locator('.figure canvas').waitFor();
    await page.getByRole('button', { name: 'Kill tunnel-status' }).focus();
    await page.keyboard.press('Space');
    await page.getByText('killed a replica of tunnel-status').waitFor();
    await page.getByLabel('Tunnels').fill('2');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.locator('.tunnel').count()).toBe(4);
    await page.getByLabel('Tunnels').fill('3');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.locator('.tunnel').count()).toBe(6);
    await shows('liqo-tunnel2', 'Connected');
  });

  test('an action that the lab refuses is answered in words', async () => {
    await page.evaluate('document.querySelector("form.scale").noValidate = true'); // the browser would refuse it first
    await page.getByLabel('Tunnels').fill('65');
    await page.keyboard.press('Enter');
    const answer = page.locator('#lab .answer');
    await expect.poll(() => answer.textContent()).toContain('Not done: scale: 65, want an integer from 1 to 64');
  });

  test('the past is a film: scrubbed to the outage and on, judged by other settings, and left for the present', async () => {
    const period = page.getByLabel('The last');
    if (!(await period.isVisible())) await page.getByRole('button', { name: 'Past' }).click();
    await period.selectOption('5 min');
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.locator('#pulse[data-state="past"]').waitFor();
    const time = page.getByLabel('Time', { exact: true });
    const errors = page.locator('.tunnel[data-value="Error"]');
    const last = Number(await time.getAttribute('max'));
    const seenAt: number[] = [];
    for (let second = 0; second <= last; second++) {
      await time.fill(String(second));
      await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
      if ((await errors.count()) > 0) seenAt.push(second);
    }
    expect(seenAt.length).toBeGreaterThan(0); // tunnel1 was cut, and healed
    expect(seenAt).not.toContain(last);
    await time.fill(String(seenAt[0]));
    await expect.poll(() => errors.first().locator('.reason').textContent()).toMatch(/no PONG since/);
    expect(await page.locator('.tools').first().isVisible()).toBe(false); // nothing of the past is to be changed

    await page.getByLabel('ping-loss-threshold').fill('20');
    const rows = page.getByRole('region', { name: 'What if' }).locator('tbody tr');
    await expect.poll(() => rows.count()).toBe(2);
    const outages = async (row: number) => Number(await rows.nth(row).locator('td').first().textContent());
    expect(await outages(0)).toBeGreaterThan(await outages(1));
    await expectAccessible(page);

    await page.getByRole('button', { name: 'Play' }).click();
    await page.locator('#past').getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Back to live' }).click();
    await untilLive(page, log);
    await shows('liqo-tunnel1', 'Connected');
    await page.locator('#lab').waitFor();

    const held = Promise.withResolvers<void>();
    await page.route('**/past', async (route) => {
      await held.promise;
      await route.continue();
    });
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.getByRole('button', { name: 'Back to live' }).click();
    const answered = page.waitForResponse('**/past');
    held.resolve();
    await (await answered).finished();
    await page.waitForTimeout(FRAME_MS); // what comes after one went back is not shown
    expect(await page.locator('#pulse').getAttribute('data-state')).toBe('live');
    await page.unroute('**/past');
    await page.getByRole('button', { name: 'Past' }).click();
  });

  test.each([
    ['beside another film', 'Show', 'past'],
    ['beside the present', 'Back to live', 'live'],
  ])('an answer that comes too late is not shown %s, be it a refusal', async (_, leavesBy, state) => {
    await page.getByRole('button', { name: 'Past' }).click();
    const show = page.getByRole('button', { name: 'Show', exact: true });
    const report = page.locator('#past .report');
    for (const isRefused of [false, true]) {
      await show.click();
      await page.locator('#pulse[data-state="past"]').waitFor();
      const held = Promise.withResolvers<void>();
      await page.route('**/past', async (route) => {
        if (!route.request().postData()?.includes('whatIf')) return route.continue();
        await held.promise;
        return isRefused ? route.fulfill({ status: 400, body: 'too late' }) : route.continue();
      });
      const answered = page.waitForResponse((response) => response.request().postData()?.includes('whatIf') === true);
      await page.getByLabel('ping-loss-threshold').fill(isRefused ? '18' : '19');
      await page.getByRole('button', { name: leavesBy, exact: true }).click();
      const said = page.locator('#past .answer');
      await expect.poll(() => said.textContent()).toMatch(state === 'past' ? /^\d+ seconds/ : /^$/);
      held.resolve();
      await (await answered).finished();
      await page.waitForTimeout(FRAME_MS);
      expect(await report.isVisible()).toBe(false);
      expect(await said.textContent()).not.toMatch(/Judged anew|Not possible/);
      expect(await page.locator('#pulse').getAttribute('data-state')).toBe(state);
      await page.unroute('**/past');
    }
    await page.getByRole('button', { name: 'Past' }).click();
    await untilLive(page, log);
  });

  test('is a picture that says what is wrong', async () => {
    await page.waitForTimeout(HISTORY_MS);
    await click('liqo-tunnel', 'Lose 30 %: liqo-tunnel');
    await page.waitForTimeout(HISTORY_MS / 4);
    await click('liqo-tunnel1', 'Cut: liqo-tunnel1');
    await shows('liqo-tunnel1', 'Error');
    await page.waitForTimeout(HISTORY_MS / 8);
    await page.screenshot({ path: PICTURE });
  });

  test.each([
    [1280, 'light'],
    [1280, 'dark'],
    [360, 'light'],
    [360, 'dark'],
  ] as const)('at %i px, %s: no serious finding of axe-core, nothing wider than the window', async (width, scheme) => {
    await using opened = await open({ width, height: 900 }, scheme);
    await opened.locator('.tunnel .figure canvas').first().waitFor();
    expect(await overflows(opened)).toBe(false);
    await opened.screenshot({ path: join(IMAGES, `page-${width}-${scheme}.png`), fullPage: true });
    await expectAccessible(opened);
    expect(log).toEqual({ errors: [], foreign: [] });
  });

  test('a choice of theme is kept', async () => {
    await using opened = await open({ width: 800, height: 600 });
    const background = () => opened.evaluate('getComputedStyle(document.body).backgroundColor');
    const light = await background();
    await opened.getByRole('button', { name: 'Theme: system' }).click();
    await opened.getByRole('button', { name: 'Theme: light' }).click();
    expect(await background()).not.toBe(light);
    await opened.reload();
    await opened.getByRole('button', { name: 'Theme: dark' }).waitFor();
    expect(await background()).not.toBe(light);
  });
});
