import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startService } from '../support/service.ts';
import { startChromium } from './chromium.mjs';

/**
 * In place of a bundler: the paths under which the page loads the modules of the built client and of its dependency,
 * and the folders that have these modules.
 */
const MODULES = [
  ['/modules/client/', 'dist/client/'],
  ['/modules/hashes/', 'node_modules/@noble/hashes/'],
];

let browser;
let service;
beforeAll(async () => {
  [browser, service] = await Promise.all([startChromium(), startService({ INGESTION_AUTH: 'required' })]);
});
afterAll(async () => {
  await browser.close();
  await service.close();
});

it('load-data-service/client uploads from Chromium, with digest and progress', async () => {
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  for (const [path, folder] of MODULES) {
    await page.route(`${service.url}${path}*`, async (route) => {
      const source = await readFile(folder + new URL(route.request().url()).pathname.slice(path.length), 'utf8');
      await route.fulfill({ contentType: 'text/javascript', body: source.replaceAll('@noble/hashes/', '/modules/hashes/') });
    });
  }
  await page.goto(`${service.url}/health/live`);
  // The page loads the client with a script element, because Vitest would compile an `import()` in the function that
  // the page evaluates.
  await page.addScriptTag({ type: 'module', content: "globalThis.loaded = await import('/modules/client/index.js')" });
  await page.waitForFunction(() => globalThis.loaded !== undefined);
  const results = await page.evaluate(
    async ([baseUrl, token]) => {
      const { LoadDataClient } = globalThis.loaded;
      const client = new LoadDataClient({ baseUrl, token });
      const parameters = { customerId: 'acme', filename: 'load.bin', manufacturer: 'Acme' };
      const bytes = new Uint8Array(3_000_000).fill(7);
      const sent = [];
      const file = new File([bytes], 'load.bin');
      const onProgress = (progress) => sent.push(progress);
      const receipts = [
        await client.uploadHistorical({ ...parameters, file, onProgress }),
        await client.uploadHistorical({ ...parameters, file: file.stream(), additionalData: 'meter 7' }),
        await client.uploadNowcast({ ...parameters, file: () => file.stream() }),
      ];
      const refused = await client.uploadNowcast({ ...parameters, customerId: '', file, onProgress }).catch(({ name, status, error }) => ({ name, status, error }));
      const controller = new AbortController();
      controller.abort();
      const aborted = await client.uploadNowcast({ ...parameters, file, onProgress, signal: controller.signal }).catch(({ name }) => name);
      return { receipts, last: sent[sent.length - 1], refused, aborted };
    },
    [service.url, await service.adminToken()],
  );
  const digest = `sha-256=:${createHash('sha256').update(Buffer.alloc(3_000_000, 7)).digest('base64')}:`;
  expect(results.receipts).toMatchObject(Array(3).fill({ digest, replayed: false }));
  expect(results.last).toEqual({ sent: 3_000_000, total: 3_000_000 });
  expect(results.refused).toEqual({ name: 'LoadDataError', status: 400, error: 'Invalid or missing query parameter.' });
  expect(results.aborted).toBe('AbortError');
  expect((await service.lines()).map((line) => [line.kind, line.content_size, line.additional_data]).sort()).toEqual([
    ['historical', 3_000_000, 'meter 7'],
    ['historical', 3_000_000, null],
    ['nowcast', 3_000_000, null],
  ].sort());
  await context.close();
});
