import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { request } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MIB } from '../../src/common/sizes.js';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';
import { type ServiceProcess, Workspace } from '../support/process.js';
import { selfSigned } from '../servers/self-signed.mjs';

const BUCKET = 'load-data';
const UPLOAD = '/ingestNowcastLoadData/upload_nowcast?customer_id=acme&filename=load.csv&manufacturer=Acme';

interface Received {
  readonly method: string | undefined;
  readonly length: number;
  /** The header that says what a signature covers: the sha-256 of the body, or `UNSIGNED-PAYLOAD`. */
  readonly signed: unknown;
  readonly crc32: unknown;
  /** Whether it was sent by the SDK. */
  readonly isBySdk: boolean;
}

describe.runIf(isVersitygwAvailable())('a service whose S3 store is reached over TLS', () => {
  let workspace: Workspace;
  let store: Versitygw;
  let front: Server;
  let service: ServiceProcess;
  let token: string;
  let received: Received[] = [];
  /** Whether the next body of over a MiB is changed on its way to the store. */
  let isSpoilt = false;
  beforeAll(async () => {
    workspace = await Workspace.create();
    store = await startVersitygw();
    await store.createBucket(BUCKET);
    const { certificate, key, certificatePath } = await selfSigned(workspace.directory, 'store');
    const { hostname, port } = new URL(store.endpoint);
    front = createServer({ cert: certificate, key }, (incoming, outgoing) => {
      const { method, url, headers, rawHeaders } = incoming;
      const pass = (chunks: Buffer[]): void => {
        const body = Buffer.concat(chunks);
        received.push({ method, length: body.length, signed: headers['x-amz-content-sha256'], crc32: headers['x-amz-checksum-crc32'], isBySdk: 'amz-sdk-request' in headers });
        if (isSpoilt && body.length > MIB) {
          isSpoilt = false;
          body[0] = ~(body[0] ?? 0);
        }
        const passed = request({ hostname, port, method, path: url, headers: rawHeaders }, (answer) => {
          answer.pipe(outgoing.writeHead(answer.statusCode ?? 500, answer.headers));
        });
        passed.once('error', () => outgoing.destroy()).end(body);
      };
      incoming.toArray().then(pass, () => outgoing.destroy());
    });
    await once(front.listen(0, '127.0.0.1'), 'listening');
    const { port: frontPort } = front.address() as AddressInfo;
    service = await workspace.start({
      ...store.environment(BUCKET),
      FILE_STORAGE: 's3',
      S3_ENDPOINT: `https://127.0.0.1:${frontPort}`,
      NODE_EXTRA_CA_CERTS: certificatePath,
    });
    token = (await workspace.token()).stdout.trim();
  });
  beforeEach(() => {
    received = [];
    isSpoilt = false;
  });
  afterAll(async () => {
    await workspace.dispose();
    front.close();
    await store.stop();
  });

  const get = (path: string) => fetch(service.url + path, { headers: { authorization: `Bearer ${token}` } });
  /** What the service lists, and the files in the store. */
  const stored = async () => [await (await get('/uploads')).json(), (await readdir(join(store.directory, BUCKET, 'files'), { recursive: true })).sort()];
  const upload = (body: Buffer) => fetch(service.url + UPLOAD, { method: 'POST', headers: { 'content-type': 'text/csv' }, body });

  it.each([
    ['a short file', 1000],
    ['a file in parts', 12 * MIB],
  ])('stores %s with a CRC32 of what is sent, and without hashing it for the signature', async (_, length) => {
    const bytes = randomBytes(length);
    const { status, headers } = await upload(bytes);
    expect(status).toBe(200);
    expect(received.reduce((sum, each) => sum + each.length, 0)).toBeGreaterThan(length);
    const puts = received.filter(({ method }) => method === 'PUT');
    for (const { signed, crc32 } of puts) expect([signed, crc32]).toEqual(['UNSIGNED-PAYLOAD', expect.any(String)]);
    const content = await get(`/uploads/${headers.get('x-upload-id') ?? ''}/content`);
    expect(bytes.equals(Buffer.from(await content.arrayBuffer()))).toBe(true);
  });

  it('signs the bodies of all other requests', async () => {
    const { headers } = await upload(Buffer.from('some bytes'));
    const removed = await fetch(`${service.url}/uploads/${headers.get('x-upload-id') ?? ''}`, { method: 'DELETE', headers: { authorization: `Bearer ${token}` } });
    expect(removed.status).toBe(204);
    const others = received.filter(({ method }) => method !== 'PUT');
    expect(new Set(others.map(({ method }) => method))).toEqual(new Set(['GET', 'POST']));
    for (const { signed } of others) expect(signed).toMatch(/^[0-9a-f]{64}$/);
  });

  it('gets small objects without the SDK, and none of them twice', async () => {
    await upload(Buffer.from('some bytes'));
    received = [];
    expect((await upload(Buffer.from('some bytes'))).status).toBe(200);
    const puts = received.filter(({ method }) => method === 'PUT');
    expect(puts.map(({ isBySdk, signed }) => [isBySdk, signed])).toEqual(Array(3).fill([false, 'UNSIGNED-PAYLOAD']));
  });

  it('stores nothing of a file that was changed on its way to the store', async () => {
    await upload(Buffer.from('some bytes'));
    const before = await stored();
    isSpoilt = true;
    const { status } = await upload(randomBytes(12 * MIB));
    expect({ status, isSpoilt }).toEqual({ status: 500, isSpoilt: false });
    expect(await stored()).toEqual(before);
  });
});
