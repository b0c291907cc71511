import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { type Azurite, startAzurite } from '../servers/azurite.mjs';
import { type ProxiedRequest, startFaultProxy } from '../servers/fault-proxy.mjs';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';
import { type ServiceProcess, type Variables, Workspace } from '../support/process.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.csv&manufacturer=Acme';
const BYTES = Buffer.alloc(6 * 1024 * 1024, 'in parts ');

let workspace: Workspace;
beforeEach(async () => {
  workspace = await Workspace.create();
});
afterEach(() => workspace.dispose());

async function upload({ url }: ServiceProcess, body: string | Buffer<ArrayBuffer>, headers: Readonly<Record<string, string>> = {}) {
  const response = await fetch(url + UPLOAD, { method: 'POST', body, headers: { 'content-type': 'text/csv', ...headers } });
  expect(response.status).toBe(200);
  return { id: response.headers.get('x-upload-id') ?? '', isReplayed: response.headers.get('idempotent-replayed') === 'true' };
}

/** Sends requests to a service as its administrator. */
async function administrator({ url }: ServiceProcess, variables: Variables = {}) {
  const { stdout } = await workspace.token([], variables);
  const headers = { authorization: `Bearer ${stdout.trim()}` };
  return (path: string, method = 'GET') => fetch(url + path, { method, headers });
}

/** The tests that work on every object storage, S3 and Azure. */
function moving(to: string, open: () => Promise<Variables>): void {
  let variables: Variables;
  beforeEach(async () => {
    variables = await open();
  });

  it('moves a store while its service runs, and a service on the bucket goes on with it', async () => {
    const before = await workspace.start();
    const keyed = { 'idempotency-key': 'key' };
    const first = await upload(before, BYTES, keyed);
    const removed = await upload(before, 'removed', { 'idempotency-key': 'removed' });
    await upload(before, JSON.stringify({ additional_data: 'text' }), { 'content-type': 'application/json' });

    const looked = await workspace.moveStore(['--to', to, '--dry-run'], variables);
    expect(looked).toMatchObject({ code: 0, stderr: '' });
    expect(looked.stdout).toBe('Would move 3 uploads, 2 files, 6,291,463 bytes, and copy 2 files, 6,291,463 bytes of these.\n');
    const running = await workspace.moveStore(['--to', to], variables);
    expect(running).toMatchObject({ code: 3, stderr: '' });
    expect(running.stdout).toBe('Copied 2 files, 6,291,463 bytes. Stop the service, and run this again for the last step.\n');

    const late = await upload(before, 'late');
    expect((await (await administrator(before))(`/uploads/${removed.id}`, 'DELETE')).status).toBe(204);
    await before.program.end('SIGTERM');
    const stopped = await workspace.moveStore(['--to', to, '--json'], variables);
    expect(stopped).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(stopped.stdout)).toEqual({
      summary: { uploads: 3, files: 2, bytes: BYTES.length + 4, copied_files: 1, copied_bytes: 4, problems: 0, result: 'moved' },
    });
    expect(await workspace.verifyStore([], { ...variables, FILE_STORAGE: to })).toMatchObject({
      code: 0,
      stdout: `3 uploads, 2 files, ${(BYTES.length + 4).toLocaleString('en')} bytes, 0 defects\n`,
    });

    const after = await workspace.start({ ...variables, FILE_STORAGE: to });
    expect(await upload(after, BYTES, keyed)).toEqual({ id: first.id, isReplayed: true });
    expect(await upload(after, 'removed', { 'idempotency-key': 'removed' })).toMatchObject({ isReplayed: false });
    const request = await administrator(after, { ...variables, FILE_STORAGE: to });
    expect(Buffer.from(await (await request(`/uploads/${first.id}/content`)).arrayBuffer()).equals(BYTES)).toBe(true);
    expect(await (await request(`/uploads/${late.id}/content`)).text()).toBe('late');
    expect((await request(`/uploads/${removed.id}`)).status).toBe(404);
    const list = (await (await request('/uploads')).json()) as { uploads: unknown[] };
    expect(list.uploads).toHaveLength(4);
    await after.program.end('SIGTERM');
    const repeated = await workspace.moveStore(['--to', to], variables);
    expect(repeated).toMatchObject({ code: 0, stdout: `The store was moved to the bucket before. Start the service with FILE_STORAGE=${to}.\n` });
  });
}

describe.runIf(isVersitygwAvailable())('npm run move:store to S3', () => {
  let server: Versitygw;
  let count = 0;
  beforeAll(async () => {
    server = await startVersitygw();
  });
  afterAll(() => server.stop());

  moving('s3', async () => {
    const name = `load-data-${count++}`;
    await server.createBucket(name);
    const { endpoint, region, accessKeyId, secretAccessKey } = server;
    return {
      S3_BUCKET: name,
      S3_PREFIX: 'of/all',
      S3_ENDPOINT: endpoint,
      S3_REGION: region,
      S3_FORCE_PATH_STYLE: 'true',
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    };
  });
});

describe('npm run move:store to Azure Blob Storage', () => {
  let server: Azurite;
  let count = 0;
  beforeAll(async () => {
    server = await startAzurite();
  });
  afterAll(() => server.stop());

  const newContainer = async (): Promise<Variables> => {
    const container = `load-data-${count++}`;
    await server.createContainer(container);
    return { AZURE_STORAGE_CONTAINER: container, AZURE_STORAGE_CONNECTION_STRING: server.connectionString };
  };

  moving('azure', newContainer);

  it('refuses to move a store whose events are not all delivered', async () => {
    // Nobody listens at the webhook's address.
    const absent = createServer().listen(0, '127.0.0.1');
    await once(absent, 'listening');
    const { port } = absent.address() as AddressInfo;
    absent.close();
    const service = await workspace.start({
      EVENTS_WEBHOOK_URL: `http://127.0.0.1:${port}/`,
      EVENTS_WEBHOOK_SECRET: `whsec_${Buffer.alloc(24).toString('base64')}`,
    });
    await upload(service, 'undelivered');
    await service.program.end('SIGTERM');
    const variables = await newContainer();
    const refused = await workspace.moveStore(['--to', 'azure'], variables);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toMatch(/^Events of some uploads haven't been delivered yet\. Start the service until load_data_events_lag_seconds is 0[^\n]*\n$/);
    await rm(join(workspace.data, 'events'), { recursive: true });
    expect(await workspace.moveStore(['--to', 'azure'], variables)).toMatchObject({ code: 0 });
  });

  it('leaves the last step to another run if the service crashes while its files are copied', async () => {
    const service = await workspace.start();
    await upload(service, 'copied');
    await server.createContainer('crash');
    const proxy = await startFaultProxy(server.endpoint);
    try {
      const isCopy = ({ method, url }: ProxiedRequest): boolean => method === 'PUT' && url.includes('/files/');
      proxy.hold({ to: isCopy });
      const connection = server.connectionString.replace(server.endpoint, proxy.endpoint);
      const variables = { AZURE_STORAGE_CONTAINER: 'crash', AZURE_STORAGE_CONNECTION_STRING: connection };
      const move = workspace.moveStore(['--to', 'azure'], variables);
      await expect.poll(() => proxy.requests.some(isCopy), { timeout: 30_000 }).toBe(true);
      await service.program.end('SIGKILL');
      await proxy.pass();
      expect(await move).toMatchObject({ code: 3 });
      expect(await workspace.moveStore(['--to', 'azure'], variables)).toMatchObject({ code: 0 });
    } finally {
      await proxy.close();
    }
  });

  it('names the file that differs from its line, and ends with 1', async () => {
    const service = await workspace.start();
    await upload(service, 'whole');
    await service.program.end('SIGTERM');
    const view = new DataDirectoryView(workspace.data);
    const [path = ''] = await view.contentPaths();
    await rm(view.at(path));
    const { code, stdout, stderr } = await workspace.moveStore(['--to', 'azure'], await newContainer());
    expect({ code, stderr }).toEqual({ code: 1, stderr: '' });
    expect(stdout).toBe(`${path}: the file is absent\n1 problem: docs/checking-a-store.md says what to do. The move is not complete.\n`);
  });

  it('shows on a terminal what it does and how far it is, until the result', async () => {
    const service = await workspace.start();
    await upload(service, 'shown');
    await service.program.end('SIGTERM');
    await server.createContainer('terminal');
    const proxy = await startFaultProxy(server.endpoint);
    try {
      // The line is renewed every 200 ms, and each part of the move waits for an answer at least once.
      proxy.delay(300);
      const connection = server.connectionString.replace(server.endpoint, proxy.endpoint);
      const terminal = workspace.onTerminal('move-store', '--to azure', { AZURE_STORAGE_CONTAINER: 'terminal', AZURE_STORAGE_CONNECTION_STRING: connection });
      expect(await terminal.exited).toEqual({ code: 0, signal: null });
      expect(proxy.requests.length).toBeGreaterThan(3);
      const shown = terminal.stdout.split('\r\x1b[K').filter(Boolean);
      const [whole, empty] = ['[####################] 100 %', '[....................]   0 %'];
      expect(shown).toEqual(expect.arrayContaining(['counting uploads (0)', `${empty} copying files (0 copied)`, `${whole} copying files (1 copied)`, `${whole} writing lines (1 of 1)`]));
      expect(shown.at(-1)).toBe('Moved 1 upload, 1 file, 5 bytes. Start the service with FILE_STORAGE=azure.\r\n');
    } finally {
      await proxy.close();
    }
  });
});
