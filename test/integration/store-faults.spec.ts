import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { S3Bucket } from '../../src/ingestion/adapters/out/object-storage/s3/s3.bucket.js';
import { BucketView } from '../../src/testing/bucket.view.js';
import { type FaultProxy, startFaultProxy } from '../servers/fault-proxy.mjs';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';
import { type ServiceProcess, Workspace } from '../support/process.js';

const BUCKET = 'load-data';
const PATIENCE = { timeout: 25_000, interval: 100 };
/** How long after the end of a fault everything works again at the latest, in milliseconds. */
const RECOVERY_MS = 10_000;
const HISTORICAL = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.csv&manufacturer=Acme';
const PART = 5 * 1024 * 1024;

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly uploadId: string | null;
}

async function post(service: ServiceProcess, init: RequestInit): Promise<Answer> {
  const response = await fetch(service.url + HISTORICAL, { method: 'POST', ...init });
  return { status: response.status, body: await response.text(), uploadId: response.headers.get('x-upload-id') };
}

const json = (): RequestInit => ({ body: '{"additional_data":"x"}', headers: { 'content-type': 'application/json' } });
const file = (): RequestInit => ({ body: 'a file', headers: { 'content-type': 'text/csv' } });
let keys = 0;
const keyed = (): RequestInit => ({ body: 'a file', headers: { 'content-type': 'text/csv', 'idempotency-key': `key-${keys++}` } });

/**
 * An upload whose file the service sends to the store in more than one part. The client sends the rest of the file when
 * `goOn` resolves.
 */
function halting(goOn: Promise<unknown>): RequestInit {
  const pieces = [randomBytes(PART), randomBytes(PART)];
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const piece = pieces.shift();
      if (pieces.length === 0) await goOn;
      if (piece) controller.enqueue(new Uint8Array(piece));
      else controller.close();
    },
  });
  return { body, duplex: 'half', headers: { 'content-type': 'application/octet-stream' } };
}

describe.runIf(isVersitygwAvailable())('the service on a store that', () => {
  let workspace: Workspace;
  let server: Versitygw;
  let proxy: FaultProxy;
  let service: ServiceProcess;
  let view: BucketView;
  let bucket: S3Bucket;
  const acknowledged: string[] = [];

  const variables = (endpoint: string, changes: Record<string, string> = {}) => ({
    FILE_STORAGE: 's3',
    S3_BUCKET: BUCKET,
    S3_PREFIX: 'of/all',
    S3_ENDPOINT: endpoint,
    S3_REGION: server.region,
    S3_FORCE_PATH_STYLE: 'true',
    STORAGE_TIMEOUT_MS: '2000',
    AWS_ACCESS_KEY_ID: server.accessKeyId,
    AWS_SECRET_ACCESS_KEY: server.secretAccessKey,
    PORT: '0',
    ...changes,
  });

  beforeAll(async () => {
    workspace = await Workspace.create();
    server = await startVersitygw();
    await server.createBucket(BUCKET);
    proxy = await startFaultProxy(server.endpoint);
    service = await workspace.start(variables(proxy.endpoint));
    const { endpoint, region, accessKeyId, secretAccessKey } = server;
    const credentials = { accessKeyId, secretAccessKey };
    const limits = { timeoutMs: 10_000, maxUploadBytes: 1024 ** 3 };
    bucket = new S3Bucket({ bucket: BUCKET, prefix: 'of/all/', endpoint, region, credentials, forcePathStyle: true, ...limits });
    view = new BucketView(bucket);
  });
  afterAll(async () => {
    bucket.close();
    await workspace.dispose();
    await proxy.close();
    await server.stop();
  });
  beforeEach(async () => {
    await expectWell();
  });

  /** Expects that the service is ready and stores each kind of upload within `RECOVERY_MS`. */
  async function expectWell(of: ServiceProcess = service): Promise<void> {
    const start = performance.now();
    await expect.poll(async () => (await fetch(`${of.url}/health/ready`)).status, PATIENCE).toBe(200);
    for (const init of [json(), file(), keyed()]) {
      let answer: Answer | undefined;
      await expect.poll(async () => (answer = await post(of, init)).status, PATIENCE).toBe(200);
      acknowledged.push(answer?.uploadId ?? '');
    }
    expect(performance.now() - start).toBeLessThan(RECOVERY_MS);
  }

  /** The metrics of what failed: requests to the store that were repeated, and writes of index lines. */
  async function failures(): Promise<{ readonly retries: number; readonly flushes: number }> {
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    const value = (metric: string): number => Number(new RegExp(`^load_data_${metric} (\\d+)$`, 'm').exec(metrics)?.[1] ?? 0);
    return { retries: value('bucket_retries_total'), flushes: value('flushes_total{outcome="failed"}') };
  }

  async function expectFailure(of: ServiceProcess = service): Promise<void> {
    const answers = await Promise.all([json(), file(), keyed()].map((init) => post(of, init)));
    for (const answer of answers) expect(answer).toEqual({ status: 500, body: '{"error":"Internal server error."}', uploadId: null });
    await expect.poll(async () => (await fetch(`${of.url}/health/ready`)).status, PATIENCE).toBe(503);
    expect((await fetch(`${of.url}/health/live`)).status).toBe(200);
  }

  /**
   * Expects that the store has all acknowledged uploads and nothing else. Waits until the service has undone the failed
   * ones.
   */
  async function expectNothingElse(): Promise<void> {
    await expect.poll(async () => (await view.lines()).map(({ upload_id }) => upload_id).sort(), PATIENCE).toEqual([...acknowledged].sort());
    const paths = (await view.lines()).flatMap(({ content_path }) => content_path ?? []).sort();
    await expect.poll(async () => (await view.contentPaths()).sort(), PATIENCE).toEqual(paths);
  }

  /** `isSilent`: the store answers nothing, so that a request takes all of its time and isn't repeated. */
  const FAULTS: Readonly<Record<string, { begin: () => Promise<void> | void; end: () => Promise<void> | void; isSilent?: true }>> = {
    'refuses connections': { begin: () => proxy.refuse(), end: () => proxy.pass() },
    'resets connections': { begin: () => { proxy.reset(); }, end: () => proxy.pass() },
    'is throttling': { begin: () => { proxy.throttle(); }, end: () => proxy.pass() },
    'carries out every request and sends no answer': { begin: () => { proxy.hold(); }, end: () => proxy.pass(), isSilent: true },
    'is stopped': { begin: () => server.pause(), end: () => { server.resume(); }, isSilent: true },
    'is killed': { begin: () => server.kill(), end: () => server.restart() },
  };

  it.each(Object.entries(FAULTS))('%s: uploads answer 500, none is visible in part, and the service recovers by itself in ten seconds', async (_, fault) => {
    const before = await failures();
    let goOn: (value?: unknown) => void = () => undefined;
    const inTheMiddle = post(service, halting(new Promise((resolve) => (goOn = resolve))));
    await fault.begin();
    try {
      await expectFailure();
      goOn();
      expect((await inTheMiddle).status).toBe(500);
    } finally {
      await fault.end();
    }
    await expectWell();
    const after = await failures();
    expect(after.flushes).toBeGreaterThan(before.flushes);
    expect(after.retries).toBeGreaterThanOrEqual(before.retries + (fault.isSilent === true ? 0 : 1));
    await expectNothingElse();
    expect(service.program.child.exitCode).toBeNull();
  });

  it('has no bucket at boot: the service is live but not ready, and works once the bucket exists', async () => {
    const program = workspace.launch(variables(proxy.endpoint, { S3_BUCKET: 'later', DATA_DIR: `${workspace.directory}/later`, PORT: '39871' }));
    const late = { program, url: 'http://127.0.0.1:39871' } as ServiceProcess;
    await expect.poll(() => fetch(`${late.url}/health/live`).then(({ status }) => status, () => 0), PATIENCE).toBe(200);
    await expectFailure(late);
    await server.createBucket('later');
    const count = acknowledged.length;
    await expectWell(late);
    acknowledged.splice(count);
    expect((await program.line(/^Ready: /)).length).toBeGreaterThan(0);
  });

  it('no longer accepts the credentials: 500 until the service has new ones', async () => {
    let secret = server.secretAccessKey;
    const role = createServer((_, response) => {
      const Expiration = new Date(Date.now() + 1_000).toISOString();
      response.end(JSON.stringify({ AccessKeyId: server.accessKeyId, SecretAccessKey: secret, Token: '', Expiration }));
    });
    await new Promise<void>((resolve) => role.listen(0, '127.0.0.1', resolve));
    const { port } = role.address() as AddressInfo;
    const ofRole = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${port}/`, DATA_DIR: `${workspace.directory}/role` };
    // The AWS variables with empty values count as unset for the service.
    const other = await workspace.start(variables(proxy.endpoint, { ...ofRole, AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' }));
    await expectWell(other);
    secret = 'expired';
    await expect.poll(async () => {
      const { status, uploadId } = await post(other, json());
      if (uploadId !== null) acknowledged.push(uploadId);
      return status;
    }, PATIENCE).toBe(500);
    await expectFailure(other);
    secret = server.secretAccessKey;
    await expectWell(other);
    await expectNothingElse();
    role.close();
  });
});
