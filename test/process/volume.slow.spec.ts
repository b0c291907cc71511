import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type ServiceProcess, Workspace } from '../support/process.js';

const UPLOAD = 'ingestHistoricalLoadData/upload_historical?customer_id=c&filename=load.csv&manufacturer=m';
/** An upload's body that is too large for a journal, so that the service writes it to a new file. */
const LARGE = 'x'.repeat(50_000);

// The tests share a service. Each but the last leaves it healthy.
describe('DATA_DIR while the service runs', () => {
  let workspace: Workspace;
  let service: ServiceProcess;
  let token: string;

  const at = (path: string) => join(workspace.data, path);
  const keyedUpload = async (key: string) => {
    const headers = { 'Idempotency-Key': key };
    const { status, headers: answered } = await fetch(`${service.origin}/${UPLOAD}`, { method: 'POST', headers });
    return [status, answered.get('X-Upload-Id')];
  };
  const upload = async (body?: string) => {
    const headers = { 'Content-Type': 'text/csv' };
    return (await fetch(`${service.origin}/${UPLOAD}`, { method: 'POST', ...(body !== undefined && { body, headers }) })).status;
  };
  const uploads = async () => [await upload(), await upload('small'), await upload(LARGE)];
  const ready = async () => (await fetch(`${service.origin}/health/ready`)).status;
  let users = 0;
  const createUser = async () => {
    const name = `user${++users}`;
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const body = JSON.stringify({ email: `${name}@example.com`, name, roles: [] });
    return fetch(`${service.origin}/idpManagementBackend/create-user`, { method: 'POST', headers, body });
  };
  const issueToken = async (secret: string) => {
    const headers = { Authorization: `Basic ${Buffer.from(`admin:${secret}`).toString('base64')}` };
    return fetch(`${service.origin}/idp/token`, { method: 'POST', headers, body: new URLSearchParams({ grant_type: 'client_credentials' }) });
  };
  /**
   * Requests `/health/ready` repeatedly until it answers with this status. The service caches its result for a second.
   */
  const untilReady = async (status: number) => {
    while ((await ready()) !== status);
  };
  const lines = (root: string): string[] =>
    readdirSync(join(root, 'uploads'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ndjson'))
      .flatMap((name) => readFileSync(join(root, 'uploads', name), 'utf8').trimEnd().split('\n'));

  beforeAll(async () => {
    workspace = await Workspace.create();
    service = await workspace.start();
    token = (await workspace.token()).stdout.trim();
  });
  afterEach(() => {
    // Left by a test that has failed.
    if (!existsSync(`${workspace.data}-away`)) return;
    rmSync(workspace.data, { recursive: true, force: true });
    renameSync(`${workspace.data}-away`, workspace.data);
  });
  afterAll(() => workspace.dispose());

  it.each<[string, () => void, () => void]>([
    ['with nothing in its place', () => undefined, () => undefined],
    [
      'with an empty directory in its place',
      () => {
        mkdirSync(workspace.data);
      },
      () => {
        rmSync(workspace.data, { recursive: true });
      },
    ],
    [
      'with another store in its place',
      () => {
        cpSync(`${workspace.data}-away`, workspace.data, { recursive: true });
        rmSync(at('store-id'));
        rmSync(at('identity/identity.db'));
        // Leaves out the copied database of idempotency keys: SQLite removes the write-ahead log at this path when it
        // closes the database of the old store. The service can rebuild the keys from the index lines.
        rmSync(at('idempotency'), { recursive: true, force: true });
      },
      () => {
        rmSync(workspace.data, { recursive: true });
      },
    ],
  ])('can be moved away %s and return', async (what, replace, clear) => {
    const key = what.replaceAll(' ', '-');
    expect(await uploads()).toEqual([200, 200, 200]);
    const keyed = await keyedUpload(key);
    expect(keyed).toEqual([200, expect.any(String)]);
    expect((await createUser()).status).toBe(201);
    const stored = lines(workspace.data).length;
    renameSync(workspace.data, `${workspace.data}-away`);
    replace();
    const before = existsSync(workspace.data) ? readdirSync(workspace.data, { recursive: true }).sort() : undefined;

    expect(await uploads()).toEqual([500, 500, 500]);
    const refused = await createUser();
    expect([refused.status, refused.headers.has('Retry-After')]).toEqual([503, true]);
    expect((await fetch(`${service.origin}/idpManagementBackend/users`, { headers: { Authorization: `Bearer ${token}` } })).status).toBe(503);
    const secret = readFileSync(join(`${workspace.data}-away`, 'identity/admin-secret'), 'utf8').trim();
    expect((await issueToken(secret)).status).toBe(503);
    await untilReady(503);
    expect(await uploads()).toEqual([500, 500, 500]);
    expect((await keyedUpload(key))[0]).toBe(500);
    expect(existsSync(workspace.data) ? readdirSync(workspace.data, { recursive: true }).sort() : undefined).toEqual(before);

    clear();
    renameSync(`${workspace.data}-away`, workspace.data);
    await untilReady(200);
    expect(await uploads()).toEqual([200, 200, 200]);
    expect(await keyedUpload(key)).toEqual(keyed);
    expect((await createUser()).status).toBe(201);
    expect(lines(workspace.data)).toHaveLength(stored + 3);
  });

  const today = () => `uploads/kind=historical/date=${new Date().toISOString().slice(0, 10)}`;

  it.each<[string, () => string, (path: string) => void]>([
    ["a file in place of today's lines", today, (path) => { writeFileSync(path, ''); }],
    ['a file in place of a kind', () => 'uploads/kind=nowcast', (path) => { writeFileSync(path, ''); }],
    ['a dangling link in place of a kind', () => 'files/kind=historical', (path) => { symlinkSync('/nowhere', path); }],
  ])('with %s makes the service not ready with a message that names it, until it is removed', async (_, name, make) => {
    const path = at(name());
    if (existsSync(path)) renameSync(path, `${path}-aside`);
    make(path);
    await untilReady(503);
    expect(await upload('small')).toBe(500);
    const lines = service.program.lines.filter((line) => /"level":[45]0/.test(line) && line.includes(path));
    expect(lines.filter((line) => /move it away|put the right one back|put it back/.test(line))).not.toEqual([]);
    rmSync(path);
    if (existsSync(`${path}-aside`)) renameSync(`${path}-aside`, path);
    await untilReady(200);
    expect(await uploads()).toEqual([200, 200, 200]);
  });

  it('with a FIFO in place of identity.db still accepts uploads, but no new users until the database is back', async () => {
    const path = at('identity/identity.db');
    renameSync(path, `${path}-aside`);
    execFileSync('mkfifo', [path]);
    expect((await createUser()).status).toBe(503);
    await untilReady(503);
    expect(await uploads()).toEqual([200, 200, 200]);
    rmSync(path);
    renameSync(`${path}-aside`, path);
    await untilReady(200);
    expect((await createUser()).status).toBe(201);
  });

  it('without its lock files is locked again, and no other process becomes ready', async () => {
    for (const name of ['uploads.lock', 'identity.lock']) rmSync(at(name));
    await uploads();
    await untilReady(200);
    expect(await uploads()).toEqual([200, 200, 200]);
    expect((await createUser()).status).toBe(201);
    const second = workspace.launch();
    expect(await second.exited).toEqual({ code: 1, signal: null });
    expect(second.stderr).toMatch(/^DATA_DIR .*in use by another process[^\n]*\n$/);
  });

  it('stays unavailable while another process has it', async () => {
    for (const name of ['uploads.lock', 'identity.lock']) rmSync(at(name));
    const second = await workspace.start();
    expect(await uploads()).toEqual([500, 500, 500]);
    expect((await createUser()).status).toBe(503);
    await untilReady(503);
    await second.program.end('SIGKILL');
    await untilReady(200);
    expect(await uploads()).toEqual([200, 200, 200]);
  });

  it('without its signing keys makes npm run token fail instead of creating others, which would make all earlier tokens invalid', async () => {
    const path = at('identity/signing-keys.json');
    renameSync(path, `${path}-aside`);
    const command = await workspace.token();
    expect([command.code, command.stdout]).toEqual([1, '']);
    expect(command.stderr).toMatch(/^[^\n]*signing-keys\.json is gone while the service runs: put it back; a restart[^\n]*\n$/);
    expect(existsSync(path)).toBe(false);
    renameSync(`${path}-aside`, path);
  });

  it('without identity/ makes requests about users fail, and npm run token creates nothing', async () => {
    const before = service.program.lines.length;
    expect((await createUser()).status).toBe(201);
    rmSync(at('identity'), { recursive: true });
    expect((await createUser()).status).toBe(503);
    expect((await fetch(`${service.url}/idp/jwks`)).status).toBe(200);
    await untilReady(503);
    const command = await workspace.token();
    expect([command.code, command.stdout]).toEqual([1, '']);
    expect(command.stderr).toMatch(/^[^\n]*identity\.db is gone[^\n]*\n$/);
    expect(existsSync(at('identity'))).toBe(false);
    expect(await uploads()).toEqual([200, 200, 200]);
    const warnings = service.program.lines.slice(before).filter((line) => /"msg":"[^"]*identity\.db is gone: put it back or mount its volume/.test(line));
    expect(warnings).toHaveLength(1);
  });
});
