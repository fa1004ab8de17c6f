import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { type Browser, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { findOnPath } from '../../infra/servers/process.ts';

/** Nothing but the page under test: no first run, no updates, no calls home. The profile is a new, empty folder. */
const ARGUMENTS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];

export async function launchChromium(): Promise<Browser> {
  const executablePath = (await findOnPath('chromium')) as string; // describeReal has seen that it is there
  return chromium.launch({ executablePath, args: ARGUMENTS });
}

/** What went wrong in a page, and what it asked others for. */
export type PageLog = { readonly errors: string[]; readonly foreign: string[] };

/** Collects errors, violations of the page's policy (the console tells them) and requests beyond its own origin. */
export function watchPageLog(page: Page, origin: string): PageLog {
  const log: PageLog = { errors: [], foreign: [] };
  page.on('pageerror', (error) => log.errors.push(error.message));
  page.on('console', (message) => {
    // A server that is away is what some tests are about; the page says so itself.
    if (message.type() === 'error' && !message.text().includes('net::ERR_')) log.errors.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(origin)) log.foreign.push(request.url());
  });
  return log;
}

/** Waits until the page says that it is live. @throws Error with what it says instead, and what went wrong in it */
export async function untilLive(page: Page, log: PageLog): Promise<void> {
  await page
    .locator('#pulse[data-state="live"]')
    .waitFor()
    .catch(async (cause) => {
      const said = await page.locator('header, #banner').allTextContents();
      throw new Error(`not live: ${JSON.stringify({ said, ...log })}`, { cause });
    });
}

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

type Finding = {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string }[];
};

/** No finding of axe-core that is serious or critical. It comes by the debugger: the page's policy lets in no script. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(await readFile(AXE, 'utf8'));
  const findings = (await page.evaluate(
    'axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations)',
  )) as readonly Finding[];
  const serious = findings.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  expect(serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`)).toEqual([]);
}

/** Whether anything is wider than the window. */
export function overflows(page: Page): Promise<boolean> {
  return page.evaluate('document.documentElement.scrollWidth > document.documentElement.clientWidth');
}
