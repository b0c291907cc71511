import { readdirSync, readFileSync } from 'node:fs';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeJwt } from 'jose';
import Database from 'libsql';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { HOUR_MS } from '../../src/common/durations.js';
import { TokenIssuer } from '../../src/identity-management/adapters/out/embedded/token-issuer.js';
import { verifyStore } from '../../src/ingestion/adapters/out/local-disk/store-verification/directory-view.js';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import type { SeenLine } from '../../src/testing/index-lines.js';
import { identityRequests } from '../support/identity-requests.js';
import { type RunningService, startService } from '../support/service.js';
import { writeSigningKeys } from '../support/signing-keys.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

/** A folder with what `test/stores/write.mjs` has written with each version, named like the version. */
const STORES = 'test/stores';
const PATHS = { historical: '/ingestHistoricalLoadData/upload_historical', nowcast: '/ingestNowcastLoadData/upload_nowcast' };

interface Line extends SeenLine {
  readonly filename: string;
  readonly received_at: string;
}

interface Upload {
  readonly kind: keyof typeof PATHS;
  readonly customer: string;
  readonly filename: string;
  readonly type: string;
  readonly body: string;
  readonly note: string | null;
  readonly file: string | null;
  readonly key?: string;
}

interface Contents {
  readonly uploads: readonly [Upload, ...Upload[]];
  readonly roles: readonly { readonly role_name: string; readonly permissions: readonly string[] }[];
  readonly user: { readonly email: string; readonly name: string };
}

/** The number by which a version recognizes the form of an identity database. */
function databaseForm(folder: string): unknown {
  const database = new Database(join(folder, 'identity.db'));
  try {
    return database.pragma('user_version');
  } finally {
    database.close();
  }
}

const contents = JSON.parse(readFileSync(join(STORES, 'contents.json'), 'utf8')) as Contents;
const versions = readdirSync(STORES, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name);

describe.each(versions)('a DATA_DIR that version %s has written', (version) => {
  const written = new DataDirectoryView(join(STORES, version));
  const target = { url: '', token: '' };
  const { send, post, list } = identityRequests(target);
  let lines: Line[];
  let directory: string;
  let receiver: WebhookReceiver;
  let service: RunningService;

  beforeAll(async () => {
    lines = (await written.lines()) as Line[];
    directory = await mkdtemp(join(tmpdir(), 'load-data-'));
    await cp(written.directory, directory, { recursive: true, verbatimSymlinks: true });
    await writeSigningKeys(directory);
    receiver = await WebhookReceiver.answering(204);
    // An hour later, when the idempotency keys are still valid.
    const last = Math.max(...lines.map(({ received_at: at }) => Date.parse(at)));
    vi.useFakeTimers({ toFake: ['Date'], now: last + HOUR_MS });
    service = await startService({ DATA_DIR: directory, ...receiver.variables });
    Object.assign(target, { url: service.url, token: await service.adminToken() });
  });
  afterAll(async () => {
    vi.useRealTimers();
    await service.close();
    await receiver.close();
    await rm(directory, { recursive: true });
  });

  const idOf = (filename: string): string => lines.find((line) => line.filename === filename)?.upload_id ?? '';
  const upload = (sent: Upload): Promise<Response> => {
    const query = new URLSearchParams({ customer_id: sent.customer, filename: sent.filename, manufacturer: 'Meter Works' });
    const headers = { 'Content-Type': sent.type, ...(sent.key !== undefined && { 'Idempotency-Key': sent.key }) };
    return fetch(`${service.url}${PATHS[sent.kind]}?${query.toString()}`, { method: 'POST', headers, body: sent.body });
  };
  const get = (path: string): Promise<Response> => fetch(service.url + path, { headers: { Authorization: `Bearer ${target.token}` } });

  it('is opened without a warning, and is ready', async () => {
    expect((await get('/health/ready')).status).toBe(200);
    expect(service.log.entries.filter(({ level }) => level !== 'info')).toEqual([]);
  });

  it('has all uploads, with their files', async () => {
    const { uploads } = (await (await get('/uploads')).json()) as { uploads: Record<string, unknown>[] };
    const expected = contents.uploads.map(({ kind, customer, filename, note, file }) => ({
      upload_id: idOf(filename),
      kind,
      customer_id: customer,
      filename,
      additional_data: note,
      content_size: file === null ? null : Buffer.byteLength(file),
    }));
    expect([...uploads].reverse()).toMatchObject(expected);
    for (const { filename, file } of contents.uploads) {
      const content = await get(`/uploads/${idOf(filename)}/content`);
      expect(content.status).toBe(file === null ? 404 : 200);
      if (file !== null) expect(await content.text()).toBe(file);
    }
  });

  it('has the idempotency keys', async () => {
    for (const sent of contents.uploads.filter(({ key }) => key !== undefined)) {
      const { status, headers } = await upload(sent);
      expect([status, headers.get('Idempotent-Replayed'), headers.get('X-Upload-Id')]).toEqual([200, 'true', idOf(sent.filename)]);
      expect((await upload({ ...sent, filename: 'another.csv' })).status).toBe(422);
    }
  });

  it('has the events that were not delivered', async () => {
    const delivered = await receiver.eventsUntil((events) => events.length > contents.uploads.length);
    expect(delivered.map(({ type }) => type).sort()).toEqual([...contents.uploads.map(() => 'load-data.upload.stored.v1'), 'load-data.upload.removed.v1'].sort());
    expect(delivered.map(({ id }) => id)).toEqual(expect.arrayContaining(contents.uploads.map(({ filename }) => idOf(filename))));
  });

  it('has the roles and users, who can be changed', async () => {
    const [user] = await list('users');
    const roles = await list('roles');
    expect(user).toMatchObject(contents.user);
    expect(roles.map(({ name }) => name)).toEqual(contents.roles.map(({ role_name: name }) => name));
    // The user has the first of the roles.
    const token = await service.app.get(TokenIssuer, { strict: false }).userToken(String(user?.user_id));
    expect([...(decodeJwt(token).permissions as string[])].sort()).toEqual([...(contents.roles[0]?.permissions ?? [])].sort());
    expect((await post('assign-role', { user_id: user?.user_id, role_id: roles.at(-1)?.role_id })).status).toBe(200);
    expect((await post('create-user', { email: 'ada@grid.example', roles: [] })).status).toBe(201);
    expect(await list('users')).toHaveLength(2);
  });

  it('takes an upload, and lets one be removed', async () => {
    const [first] = contents.uploads;
    const filename = 'day.csv';
    expect((await upload({ ...first, filename: 'later.json' })).status).toBe(200);
    expect((await send('DELETE', `/uploads/${idOf(filename)}`)).status).toBe(204);
    expect((await get(`/uploads/${idOf(filename)}`)).status).toBe(404);
  });

  it('is left so that the version can open it again: with the form of its database, and nothing that verification finds', async () => {
    await service.close();
    const findings: unknown[] = [];
    for await (const finding of verifyStore(directory)) findings.push(finding);
    expect(findings).toEqual([]);
    // SQLite writes beside a database that it opens, so not in the checked-in folder.
    const untouched = join(directory, 'untouched');
    await cp(written.at('identity'), untouched, { recursive: true });
    expect(databaseForm(join(directory, 'identity'))).toEqual(databaseForm(untouched));
    const [segment = ''] = (await written.files('uploads')).filter((path) => path.includes('nowcast'));
    expect(await readFile(join(directory, segment), 'utf8')).toBe(await readFile(written.at(segment), 'utf8'));
  });
});
