import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toolPath } from '../clients/tools.mjs';
import { startService } from '../support/service.ts';
import { startChromium } from './chromium.mjs';

const SCREENSHOTS = 'dist/screenshots';
const FILE = 'docs/examples/greenbutton_usage.xml';
const OTHER_ID = '0198c5a0-5b1e-7c7e-8d55-000000000000';
const OPERATIONS = ['uploadHistorical', 'uploadNowcast', 'listUploads', 'findUpload', 'downloadUpload', 'deleteUpload', 'deleteUploads', 'assignRole', 'createRole', 'createUser', 'updateUser', 'listRoles', 'listUsers'];

let browser;
let service;
beforeAll(async () => {
  await mkdir(SCREENSHOTS, { recursive: true });
  [browser, service] = await Promise.all([startChromium(), startService({ INGESTION_AUTH: 'required', RATE_LIMIT_PER_MINUTE: '100000' })]);
});
afterAll(async () => {
  await browser.close();
  await service.close();
});

async function openPage(width) {
  // Bypasses the page's Content-Security-Policy, which would forbid that the test injects Axe into the page.
  const context = await browser.newContext({ viewport: { width, height: 900 }, bypassCSP: true });
  const page = await context.newPage();
  // Chromium draws with the processor, which other tests use too.
  page.setDefaultTimeout(100_000);
  const problems = [];
  page.on('pageerror', ({ message }) => problems.push(message));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  page.on('request', (request) => !/^(data|blob):/.test(request.url()) && !request.url().startsWith(`${service.url}/`) && problems.push(request.url()));
  await page.goto(`${service.url}/docs`);
  await page.locator('.opblock').last().waitFor();
  return { page, problems };
}

const operation = (page, id) => page.locator(`.opblock[id$="-${id}"]`);
/**
 * Opens an operation in Swagger UI, and presses its button Try it out, unless Swagger UI remembers that it was pressed.
 */
async function open(page, id) {
  const block = operation(page, id);
  await block.locator('.opblock-summary-control').click();
  await block.locator('.responses-table').first().waitFor();
  if (!(await block.locator('.try-out__btn.cancel').count())) await block.locator('.try-out__btn').click();
  return block;
}
const close = (page, id) => operation(page, id).locator('.opblock-summary-control').click();
const pathOf = (name) => `${SCREENSHOTS}/${name}.png`;
const screenshot = (page, name) => page.screenshot({ path: pathOf(name), fullPage: true });
/** Only what is shown of an operation, because the whole page takes the processor several times as long. */
const screenshotOf = (block, name) => block.screenshot({ path: pathOf(name) });

/** Presses Execute in an opened operation. Returns the status and body of the answer that the page then shows. */
async function execute(block) {
  // Otherwise the answer of an earlier execution is there until the new one arrives.
  const clear = block.locator('.btn-clear');
  if (await clear.count()) await clear.click();
  await block.locator('.btn.execute').click();
  const status = await statusOf(block);
  return { status, body: JSON.parse(await answerOf(block).locator('.highlight-code pre').first().innerText()) };
}
const answerOf = (block) => block.locator('.live-responses-table .response').first();
const statusOf = async (block) => Number.parseInt(await answerOf(block).locator('.response-col_status').innerText(), 10);

async function criticalFindings(page) {
  await page.addScriptTag({ path: toolPath('axe-core', 'axe.min.js') });
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.filter(({ impact }) => impact === 'critical').map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)}`);
}

describe('Swagger UI, 1280 pixels wide', () => {
  let page;
  let problems;
  beforeAll(async () => {
    ({ page, problems } = await openPage(1280));
  });
  afterAll(() => page.close());

  it('says how to begin, and shows no list of one server', async () => {
    await screenshot(page, 'start-1280');
    const text = await page.locator('.info').innerText();
    for (const part of ['Upload a file', 'Get a token', 'admin-secret']) expect(text).toContain(part);
    expect(await page.locator('.servers').isVisible()).toBe(false);
  });

  it('shows the pages to which it links', async () => {
    for (const [link, title] of [['all pages', '# Documentation'], ['errors and their cures', '# Troubleshooting']]) {
      const opened = page.context().waitForEvent('page');
      await page.locator('.info a', { hasText: link }).click();
      const shown = await opened;
      expect((await shown.locator('pre').innerText()).startsWith(`${title}\n`)).toBe(true);
      await shown.close();
    }
  });

  it.each(OPERATIONS)('shows %s on at most 1,500 pixels', async (id) => {
    const block = await open(page, id);
    const { height } = await block.boundingBox();
    await screenshotOf(block, `${id}-1280`);
    await close(page, id);
    expect(height).toBeLessThanOrEqual(1_500);
  });

  it('opens the operation to which the description links', async () => {
    await page.locator('.info a', { hasText: 'uploadNowcast' }).click();
    await operation(page, 'uploadNowcast').locator('.responses-table').first().waitFor();
    await close(page, 'uploadNowcast');
  });

  it('puts the focus into the field of the secret, and gets a token with it', async () => {
    await page.locator('.btn.authorize').first().click();
    await page.locator('.dialog-ux').waitFor();
    await expect.poll(() => page.evaluate(() => document.activeElement.dataset.name)).toBe('clientSecret');
    await page.keyboard.type((await readFile(join(service.dataDirectory, 'identity', 'admin-secret'), 'utf8')).trim());
    await screenshot(page, 'authorize-1280');
    expect(await criticalFindings(page)).toEqual([]);
    await page.keyboard.press('Enter');
    const dialog = page.locator('.dialog-ux');
    if (!(await dialog.getByText('Authorized').count())) await dialog.locator('.btn.modal-btn.authorize').first().click();
    await dialog.getByText('Authorized').first().waitFor();
    await dialog.locator('.btn-done').first().click();
  });

  it('says that no file was chosen, then takes its name and sends it', async () => {
    const block = await open(page, 'uploadHistorical');
    await block.locator('.btn.execute').click();
    expect(await block.locator('.no-file').innerText()).toContain('No file was chosen.');
    await screenshot(page, 'no-file-1280');
    expect(await service.lines()).toEqual([]);
    await block.getByLabel('File', { exact: true }).setInputFiles(FILE);
    expect(await block.locator('.no-file').count()).toBe(0);
    expect(await block.getByLabel('filename').inputValue()).toBe('greenbutton_usage.xml');
    expect(await execute(block)).toMatchObject({ status: 200 });
    const [line] = await service.lines();
    expect(line).toMatchObject({ filename: 'greenbutton_usage.xml', content_size: (await readFile(FILE)).length });
    await screenshot(page, 'uploaded-1280');
  });

  it('shows and sends the example of a JSON body, which needs no file', async () => {
    const block = operation(page, 'uploadHistorical');
    await block.locator('.body-param-content-type select').selectOption('application/json');
    const body = block.getByLabel('Request body');
    await expect.poll(() => body.inputValue().then(JSON.parse)).toEqual({ additional_data: 'meter replaced on 2003-12-04' });
    await screenshot(page, 'json-1280');
    expect(await criticalFindings(page)).toEqual([]);
    await block.locator('.btn.execute').click();
    await expect.poll(async () => (await service.lines()).map((line) => [line.content_path !== null, line.additional_data]).sort()).toEqual([
      [false, 'meter replaced on 2003-12-04'],
      [true, ''],
    ]);
  });

  it('sends the bytes of a file, under the name that was typed', async () => {
    const block = await open(page, 'uploadNowcast');
    await block.locator('.body-param-content-type select').selectOption('application/octet-stream');
    await block.locator('.btn.execute').click();
    expect(await block.locator('.no-file').innerText()).toContain('No file was chosen.');
    const name = block.getByLabel('filename');
    await name.fill('');
    await name.pressSequentially('mine.xml');
    await block.getByLabel('File', { exact: true }).setInputFiles(FILE);
    expect(await name.inputValue()).toBe('mine.xml');
    expect(await execute(block)).toMatchObject({ status: 200 });
    const [line, ...more] = (await service.lines()).filter(({ kind }) => kind === 'nowcast');
    expect(more).toEqual([]);
    expect(line).toMatchObject({ filename: 'mine.xml', content_size: (await readFile(FILE)).length, content_type: 'application/octet-stream' });
  });

  it('lists and removes uploads with the parameters of the examples', async () => {
    const listed = await execute(await open(page, 'listUploads'));
    expect(listed).toMatchObject({ status: 200, body: { uploads: [{ customer_id: 'acme-energy', kind: 'historical' }, { customer_id: 'acme-energy' }] } });
    await close(page, 'listUploads');
    expect(await execute(await open(page, 'deleteUploads'))).toEqual({ status: 200, body: { status: 'success', deleted: 0 } });
    await close(page, 'deleteUploads');
    expect(await service.lines()).toHaveLength(3);
  });

  it('finds the last upload, whose id it fills in, but not in place of an id that was typed', async () => {
    const block = await open(page, 'findUpload');
    const field = block.locator('tr[data-param-name=upload_id] input');
    expect(await execute(block)).toMatchObject({ status: 200, body: { filename: 'mine.xml' } });
    await field.fill(OTHER_ID);
    await close(page, 'findUpload');
    await open(page, 'findUpload');
    expect(await field.inputValue()).toBe(OTHER_ID);
    await close(page, 'findUpload');
  });

  it('lists, finds, fetches and removes uploads', async () => {
    const fill = async (id, values) => {
      const block = await open(page, id);
      for (const row of await block.locator('tr[data-param-name]').all()) {
        const [field, choice] = [row.locator('input'), row.locator('select')];
        if (await field.count()) await field.fill(values[await row.getAttribute('data-param-name')] ?? '');
        if (await choice.count()) await choice.selectOption('');
      }
      return block;
    };
    const listed = await execute(await fill('listUploads', { limit: '1' }));
    expect(listed).toMatchObject({ status: 200, body: { uploads: [{ filename: 'mine.xml' }] } });
    const [{ upload_id, customer_id }] = listed.body.uploads;
    expect(await execute(await fill('findUpload', { upload_id }))).toEqual({ status: 200, body: listed.body.uploads[0] });
    await screenshot(page, 'found-1280');

    const download = await fill('downloadUpload', { upload_id });
    await download.locator('.btn.execute').click();
    expect(await statusOf(download)).toBe(200);

    const removal = await fill('deleteUpload', { upload_id });
    await removal.locator('.btn.execute').click();
    expect(await statusOf(removal)).toBe(204);
    expect(await execute(await fill('deleteUploads', { customer_id }))).toMatchObject({ status: 200, body: { status: 'success', deleted: 2 } });
    expect(await service.lines()).toEqual([]);
  });

  it('makes a role and a user, and lists, renames and assigns them', async () => {
    const run = async (id, values = {}) => {
      const block = await open(page, id);
      const body = block.locator('textarea.body-param__text');
      if (await body.count()) await body.fill(JSON.stringify({ ...JSON.parse(await body.inputValue()), ...values }));
      return execute(block);
    };
    const role = await run('createRole');
    expect(role).toMatchObject({ status: 201 });
    const user = await run('createUser', { roles: [role.body.role_id] });
    expect(user).toMatchObject({ status: 201 });
    expect(await run('updateUser', { user_id: user.body.user_id })).toMatchObject({ status: 200 });
    expect(await run('assignRole', { user_id: user.body.user_id, role_id: role.body.role_id })).toMatchObject({ status: 200 });
    expect(await run('listRoles')).toMatchObject({ status: 200, body: { roles: [{ role_id: role.body.role_id }] } });
    expect(await run('listUsers')).toMatchObject({ status: 200, body: { users: [{ name: 'Grid operator, night shift' }] } });
    await screenshot(page, 'all-1280');
    expect(await criticalFindings(page)).toEqual([]);
  });

  it('has caused no error, and asked no other server', () => {
    expect(problems).toEqual([]);
  });
});

describe('Swagger UI, 400 pixels wide', () => {
  it('needs no scrolling sideways, and everything can be used', async () => {
    const { page, problems } = await openPage(400);
    const width = () => page.evaluate(() => document.documentElement.scrollWidth);
    expect(await width()).toBe(400);
    await screenshot(page, 'start-400');
    for (const id of OPERATIONS) {
      const block = await open(page, id);
      for (const control of await block.locator('input, select, textarea, .btn').all()) {
        const box = await control.boundingBox();
        if (box) expect([id, box.x >= 0 && box.x + box.width <= 400]).toEqual([id, true]);
      }
      expect([id, await width()]).toEqual([id, 400]);
      const [title, button] = await Promise.all(['.tab-item h4', '.try-out .btn'].map((part) => block.locator(part).first().boundingBox()));
      expect([id, title.height < 24, title.x + title.width < button.x]).toEqual([id, true, true]);
      await screenshotOf(block, `${id}-400`);
      await close(page, id);
    }
    await page.locator('.btn.authorize').first().click();
    await page.locator('.dialog-ux').waitFor();
    await screenshot(page, 'authorize-400');
    expect(await width()).toBe(400);
    expect(await criticalFindings(page)).toEqual([]);
    expect(problems).toEqual([]);
    await page.close();
  });
});
