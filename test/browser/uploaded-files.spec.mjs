import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../support/service.ts';
import { startChromium } from './chromium.mjs';

let browser;
let service;
beforeAll(async () => {
  [browser, service] = await Promise.all([startChromium(), startService()]);
});
afterAll(async () => {
  await browser.close();
  await service.close();
});

const SCRIPT = "fetch('/ran')";
const FILES = [
  ['HTML', 'text/html', 'page.html', `<!doctype html><title>uploaded</title><script>${SCRIPT}</script><img src="x" onerror="${SCRIPT}">`],
  ['SVG', 'image/svg+xml', 'picture.svg', `<svg xmlns="http://www.w3.org/2000/svg" onload="${SCRIPT}"><script>${SCRIPT}</script></svg>`],
];

async function upload(type, filename, body) {
  const query = new URLSearchParams({ customer_id: 'acme', filename, manufacturer: 'Acme' });
  const answer = await fetch(`${service.url}/ingestHistoricalLoadData/upload_historical?${query}`, { method: 'POST', headers: { 'Content-Type': type }, body });
  return `${service.url}/uploads/${answer.headers.get('X-Upload-Id')}/content`;
}

describe.each(FILES)('an uploaded %s file', (_, type, filename, body) => {
  /**
   * Uploads the file, and opens its URL in a page that gets the service's answer without the named headers. Resolves to
   * the paths that the page requested.
   */
  async function openWithout(...names) {
    const url = await upload(type, filename, body);
    const context = await browser.newContext({ extraHTTPHeaders: { Authorization: `Bearer ${await service.adminToken()}` } });
    const paths = [];
    context.on('request', (request) => paths.push(new URL(request.url()).pathname));
    const page = await context.newPage();
    await page.route(url, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, headers: Object.fromEntries(Object.entries(response.headers()).filter(([name]) => !names.includes(name))) });
    });
    await page.goto(url, { waitUntil: 'networkidle' });
    await context.close();
    return paths;
  }

  it('is downloaded at its URL, and not shown', async () => {
    const url = await upload(type, filename, body);
    const context = await browser.newContext({ extraHTTPHeaders: { Authorization: `Bearer ${await service.adminToken()}` } });
    const page = await context.newPage();
    const downloaded = page.waitForEvent('download');
    // Chromium reports a download as a failed navigation, so the failure is ignored.
    await page.goto(url).catch(() => undefined);
    expect((await downloaded).suggestedFilename()).toBe(filename);
    expect(page.url()).toBe('about:blank');
    await context.close();
  });

  it('runs no script, even where it is shown', async () => {
    expect(await openWithout('content-disposition')).not.toContain('/ran');
    // Without the two headers the file's script does run. So the expectation above, that it doesn't, means something.
    expect(await openWithout('content-disposition', 'content-security-policy')).toContain('/ran');
  });
});
