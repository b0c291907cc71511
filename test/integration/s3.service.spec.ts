import { createHash, randomBytes } from 'node:crypto';
import { ListMultipartUploadsCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MIB } from '../../src/common/sizes.js';
import { S3Bucket } from '../../src/ingestion/adapters/out/object-storage/s3/s3.bucket.js';
import { BucketView } from '../../src/testing/bucket.view.js';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';
import { type ServiceProcess, Workspace } from '../support/process.js';

const BUCKET = 'load-data';
const PATIENCE = { timeout: 20_000, interval: 50 };
const UPLOAD = '/ingestNowcastLoadData/upload_nowcast?customer_id=acme&filename=load.csv&manufacturer=Acme';

describe.runIf(isVersitygwAvailable())('two services on one bucket', () => {
  let workspace: Workspace;
  let server: Versitygw;
  let client: S3Client;
  let bucket: S3Bucket;
  let view: BucketView;
  let services: readonly [ServiceProcess, ServiceProcess];

  beforeAll(async () => {
    workspace = await Workspace.create();
    server = await startVersitygw();
    await server.createBucket(BUCKET);
    const { endpoint, region, accessKeyId, secretAccessKey } = server;
    const access = { endpoint, region, forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } };
    client = new S3Client(access);
    bucket = new S3Bucket({ ...access, bucket: BUCKET, prefix: '', timeoutMs: 10_000, maxUploadBytes: 1024 * MIB });
    view = new BucketView(bucket);
    const start = (name: string) =>
      workspace.start({
        FILE_STORAGE: 's3',
        S3_BUCKET: BUCKET,
        S3_ENDPOINT: endpoint,
        S3_REGION: region,
        S3_FORCE_PATH_STYLE: 'true',
        AWS_ACCESS_KEY_ID: accessKeyId,
        AWS_SECRET_ACCESS_KEY: secretAccessKey,
        MAX_UPLOAD_BYTES: String(16 * MIB),
        DATA_DIR: `${workspace.directory}/${name}`,
      });
    services = await Promise.all([start('one'), start('two')]);
  });
  afterAll(async () => {
    client.destroy();
    bucket.close();
    await workspace.dispose();
    await server.stop();
  });

  const parts = async () => (await client.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }))).Uploads?.length ?? 0;

  it('store exactly one of fifty simultaneous uploads under a key, and answer later ones with its receipt', async () => {
    const send = async (index: number) => {
      const headers = { 'content-type': 'text/csv', 'idempotency-key': 'fifty' };
      const response = await fetch(services[index % 2 ? 1 : 0].url + UPLOAD, { method: 'POST', headers, body: 'the file' });
      return {
        status: response.status,
        body: await response.text(),
        id: response.headers.get('x-upload-id'),
        isReplayed: response.headers.get('idempotent-replayed') === 'true',
      };
    };
    const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => send(index)));
    const [stored, ...others] = answers.filter(({ status, isReplayed }) => status === 200 && !isReplayed);
    expect(others).toEqual([]);
    for (const answer of answers) {
      if (answer.status === 200) expect(answer.id).toBe(stored?.id);
      else expect(answer).toMatchObject({ status: 409, body: '{"error":"Request in progress."}' });
    }
    for (const index of [0, 1]) expect(await send(index)).toMatchObject({ status: 200, id: stored?.id, isReplayed: true });
    expect((await view.lines()).map(({ upload_id }) => upload_id)).toEqual([stored?.id]);
    expect(await view.contentPaths()).toHaveLength(1);
  });

  const twelveMiB = randomBytes(12 * MIB);
  const digest = `sha-256=:${createHash('sha256').update('another').digest('base64')}:`;

  it.each<[string, number, (url: string) => Promise<number>]>([
    [
      'whose client disconnects',
      0,
      async (url) => {
        const leaving = new AbortController();
        const pieces = [twelveMiB];
        const body = new ReadableStream<Uint8Array>({
          async pull(controller) {
            const piece = pieces.shift();
            if (piece) {
              controller.enqueue(new Uint8Array(piece));
              return;
            }
            await expect.poll(parts, PATIENCE).toBe(1);
            leaving.abort();
          },
        });
        const sent = fetch(url, { method: 'POST', body, duplex: 'half', signal: leaving.signal });
        return sent.then(({ status }) => status, () => 0);
      },
    ],
    [
      'with another digest',
      400,
      async (url) => (await fetch(url, { method: 'POST', body: twelveMiB, headers: { 'x-upload-digest': digest } })).status,
    ],
    [
      'that exceeds the limit',
      413,
      async (url) => {
        const body = new Blob([twelveMiB, twelveMiB]).stream();
        return (await fetch(url, { method: 'POST', body, duplex: 'half' })).status;
      },
    ],
    [
      'in a truncated form',
      400,
      async (url) => {
        const headers = { 'content-type': 'multipart/form-data; boundary=b' };
        const head = Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n');
        return (await fetch(url, { method: 'POST', body: Buffer.concat([head, twelveMiB]), headers })).status;
      },
    ],
  ])('store nothing of an upload %s, not even parts', async (_, status, send) => {
    const before = await view.keys();
    expect(await send(services[0].url + UPLOAD)).toBe(status);
    await expect.poll(parts, PATIENCE).toBe(0);
    await expect.poll(() => view.keys(), PATIENCE).toEqual(before);
  });

  it('store 12 MiB that are sent at once', async () => {
    const response = await fetch(services[1].url + UPLOAD, { method: 'POST', body: twelveMiB });
    expect(response.status).toBe(200);
    const id = response.headers.get('x-upload-id') ?? '';
    const line = (await view.lines()).find(({ upload_id }) => upload_id === id);
    expect((await view.bytes(line?.content_path ?? ''))?.equals(twelveMiB)).toBe(true);
  });
});
