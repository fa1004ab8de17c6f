import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPageServer } from '../../shared/adapters/page-server.ts';
import { systemClock } from '../../shared/adapters/system-clock.ts';
import { readPageFiles } from '../../shared/cli/page-files.ts';
import type { Connection, ConnectionValue } from '../../shared/domain/connection.ts';
import { PageView } from '../../shared/domain/page-view.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import { launchChromium, overflows } from '../support/browser.ts';
import { describeReal } from '../support/real-parts.ts';

const CONNECTIONS = 20;
const TUNNELS = 64;
const HISTORY_SECONDS = 60;
const interfaceIds = Array.from({ length: TUNNELS }, (_, index) => interfaceIdOf(index));

/** Counts, in the page, who touches the document and how often something is drawn. */
const COUNT_WORK = `
  globalThis.work = { rows: new Set(), draws: 0 };
  const clearRect = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...args) { work.draws += 1; return clearRect.apply(this, args); };
  new MutationObserver((records) => {
    for (const { target } of records) {
      const row = (target.nodeType === 1 ? target : target.parentElement)?.closest('.tunnel');
      if (row) work.rows.add(row.closest('.card').ariaLabel + ' ' + row.dataset.interface);
    }
  }).observe(document.getElementById('cards'), { subtree: true, childList: true, characterData: true, attributes: true });`;

await describeReal('a page of 64 tunnels × 20 Connections, in Chromium', ['chromium'], () => {
  const cleanUp = new AsyncDisposableStack();
  const view = new PageView();
  let page: Page;
  let second = Math.floor(Date.now() / 1_000) - HISTORY_SECONDS;

  const nameOf = (index: number) => `gw-${String(index).padStart(2, '0')}`;

  function connection(index: number, failed: ReadonlySet<string> = new Set()): Connection {
    const value: ConnectionValue = failed.size > 0 ? 'Error' : 'Connected';
    return {
      metadata: { namespace: 'tenant', name: nameOf(index), uid: `${index}`, resourceVersion: '1' },
      spec: {
        type: 'Server',
        gatewayRef: { apiVersion: 'v1', kind: 'WgGatewayServer', name: nameOf(index), namespace: 'tenant' },
      },
      status: {
        value,
        tunnels: interfaceIds.map((interfaceID) => ({
          interfaceID,
          value: failed.has(interfaceID) ? 'Error' : 'Connected',
        })),
      },
    };
  }

  function observe(index: number, interfaceId: string, rttNs: number): void {
    const gateway = { gatewayEpoch: 1, sequence: second, monotonicMs: second * 1_000 };
    view.observe(
      {
        ...{ namespace: 'tenant', connection: nameOf(index), interfaceId, ...gateway },
        ...{ kind: 'pong', value: 'Connected', rttNs, observedAt: '2026-01-01T00:00:00Z' },
      },
      second * 1_000,
    );
  }

  function observeAll(): void {
    second += 1;
    for (let index = 0; index < CONNECTIONS; index++) {
      for (const interfaceId of interfaceIds) observe(index, interfaceId, 1_000_000 + ((second * 7_919) % 500_000));
    }
  }

  beforeAll(async () => {
    for (let index = 0; index < CONNECTIONS; index++) view.setConnection(connection(index), second * 1_000);
    for (let past = 0; past < HISTORY_SECONDS; past++) observeAll();
    const server = await startPageServer({
      ...{ bind: { host: '127.0.0.1', port: 0 }, files: await readPageFiles(), source: view, clock: systemClock },
      ...{ guard: { controlToken: 'none' }, version: 'test' },
    });
    cleanUp.defer(() => server.close());
    const browser: Browser = await launchChromium();
    cleanUp.defer(() => browser.close());
    page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(`http://127.0.0.1:${server.port}/`);
    await page.getByText(`${CONNECTIONS} Connections: ${CONNECTIONS} Connected`).waitFor();
  });
  afterAll(() => cleanUp.disposeAsync());

  const work = () =>
    page.evaluate('({ rows: [...work.rows], draws: work.draws })') as Promise<{ rows: string[]; draws: number }>;
  const reset = () => page.evaluate('work.rows.clear(); work.draws = 0;');
  const latencyOf = (index: number, interfaceId: string) =>
    page.locator(`[aria-label="Connection tenant/${nameOf(index)}"] [data-interface="${interfaceId}"] .number`).first();

  test('shows only tunnels that are not well, until somebody wants to see the others', async () => {
    expect(await page.locator('.tunnel').count()).toBe(0);
    view.setConnection(connection(3, new Set(['liqo-tunnel5'])), second * 1_000);
    await expect.poll(() => page.locator('.tunnel').count()).toBe(1);
    await page.getByRole('button', { name: '63 of 64 tunnels are Connected: show them' }).waitFor();
    await page.evaluate(
      "document.querySelectorAll('.card > button').forEach((one) => one.textContent.includes('show them') && one.click())",
    );
    await expect.poll(() => page.locator('.tunnel').count()).toBe(CONNECTIONS * TUNNELS);
    expect(await overflows(page)).toBe(false);
  });

  test('one PONG touches one row; what is not on the screen is not drawn', async () => {
    await page.evaluate(COUNT_WORK);
    second += 1;
    observe(0, 'liqo-tunnel', 77_000_000);
    await expect.poll(() => latencyOf(0, 'liqo-tunnel').textContent()).toBe('77.00 ms');
    expect((await work()).rows).toEqual([`Connection tenant/${nameOf(0)} liqo-tunnel`]);
    await reset();
    observeAll();
    second += 1;
    observe(CONNECTIONS - 1, 'liqo-tunnel63', 88_000_000);
    await expect.poll(() => latencyOf(CONNECTIONS - 1, 'liqo-tunnel63').textContent()).toBe('88.00 ms');
    const { draws } = await work();
    expect(draws).toBeGreaterThan(0);
    expect(draws).toBeLessThan(120); // of 1280 rows
  });

  test('keeps up with all tunnels at once, second by second', async () => {
    await reset();
    for (let round = 0; round < 5; round++) {
      observeAll();
      second += 1;
      const ms = 100 + round;
      observe(CONNECTIONS - 1, 'liqo-tunnel63', ms * 1_000_000);
      await expect.poll(() => latencyOf(CONNECTIONS - 1, 'liqo-tunnel63').textContent()).toBe(`${ms} ms`);
    }
    await page.mouse.wheel(0, 20_000); // what comes on the screen is drawn then
    await expect.poll(async () => (await work()).draws).toBeGreaterThan(0);
  });
});
