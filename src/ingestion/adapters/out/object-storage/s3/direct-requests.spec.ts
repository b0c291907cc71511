import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import zlib from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { s3BucketAt } from '../../../../../../test/support/s3-bucket-at.js';
import { StoreSilentError } from '../bucket.js';
import type { S3Bucket, S3BucketOptions } from './s3.bucket.js';

const BYTES = Buffer.from('{"a":1}\n');
const KEY = "uploads/kind=nowcast/it's (1)*!/ü~%2F a.ndjson";
/** Those of one moment or one write. */
const PASSING = ['authorization', 'x-amz-date', 'x-amz-meta-write-id'];

const crc32Of = (bytes: Uint8Array): string => {
  const crc = Buffer.alloc(4);
  crc.writeUInt32BE(zlib.crc32(bytes));
  return crc.toString('base64');
};
const found = (crc = crc32Of(BYTES)) => ({ etag: '"1"', 'content-length': BYTES.length, 'x-amz-checksum-crc32': crc });

interface Received {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Answer = (response: ServerResponse, request: Pick<IncomingMessage, 'method' | 'headers' | 'socket'>) => unknown;
const answerFound: Answer = (response) => response.writeHead(200, found()).end(BYTES);
const answerError = (status: number, code: string): Answer => (response) => response.writeHead(status).end(`<Error><Code>${code}</Code><Message>No.</Message></Error>`);

/** What `S3Bucket` does with requests that it sends without the SDK. That a real server accepts them shows the bucket contract. */
describe('direct requests', () => {
  let server: Server;
  let bucket: S3Bucket;
  let received: Received[];
  let retries: number;
  let answer: Answer;
  afterEach(() => {
    vi.unstubAllEnvs();
    bucket.close();
    server.close();
    server.closeAllConnections();
  });

  const open = async (options: Partial<S3BucketOptions> = {}) => {
    received = [];
    retries = 0;
    answer = answerFound;
    server = createServer((request, response) => {
      void text(request).then((body) => {
        received.push({ method: request.method, url: request.url, headers: request.headers, body });
        answer(response, request);
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    bucket = s3BucketAt(server, { onRetry: () => { retries += 1; }, ...options });
  };
  const isDirect = ({ headers }: Received) => headers['amz-sdk-request'] === undefined;
  const read = async () => (await bucket.read(KEY))?.bytes.toString();

  it.each<[string, Record<string, string>, () => Promise<unknown>]>([
    ['a read', {}, () => bucket.read(KEY)],
    ['a read of a range', {}, async () => text(Readable.from((await bucket.open(KEY, { first: 0, last: 4 })) ?? []))],
    ['a creation', {}, () => bucket.create(KEY, BYTES)],
    ['a creation, without a checksum', { AWS_REQUEST_CHECKSUM_CALCULATION: 'when_required' }, () => bucket.create(KEY, BYTES)],
    ['a replacement', {}, () => bucket.replace(KEY, BYTES, '"1"')],
    ['an unconditional replacement', {}, () => bucket.replace(KEY, BYTES)],
    ['a short file', {}, async () => {
      if (received.length === 0) await bucket.create(KEY, BYTES);
      else await bucket.upload(KEY, Readable.from([BYTES]));
    }],
  ])('are like those of the SDK: %s', async (_, variables, call) => {
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    await open();
    const results = [await call(), await call()];
    expect(results[1]).toEqual(results[0]);
    expect(received.map(isDirect)).toEqual([false, true]);
    const [bySdk, directly] = received.map(({ headers, ...request }) => ({
      ...request,
      signed: /SignedHeaders=([^,]*)/.exec(headers.authorization ?? '')?.[1]?.split(';').filter((name) => !name.startsWith('amz-sdk-')),
      headers: Object.fromEntries(Object.entries(headers).filter(([name]) => !PASSING.includes(name) && !name.startsWith('amz-sdk-'))),
    }));
    expect(directly).toEqual(bySdk);
    expect(new Set(received.map(({ headers }) => headers['x-amz-meta-write-id'])).size).toBe(received[0]?.method === 'PUT' ? 2 : 1);
  });

  it('have the credentials of their moment', async () => {
    let count = 0;
    // The SDK renews credentials that expire soon.
    const credentials = () => Promise.resolve({ accessKeyId: `id-${++count}`, secretAccessKey: 'secret', ...(count % 2 === 1 && { sessionToken: `token-${count}` }), expiration: new Date(Date.now() + 1_000) });
    await open({ credentials });
    for (let times = 0; times < 4; times++) await read();
    expect(received.map(isDirect)).toEqual([false, true, true, true]);
    const used = received.map(({ headers }) => [/Credential=id-(\d+)/.exec(headers.authorization ?? '')?.[1], headers['x-amz-security-token']] as const);
    for (const [id, token] of used) expect(token).toBe(Number(id) % 2 === 1 ? `token-${String(id)}` : undefined);
    expect(new Set(used.map(([id]) => id)).size).toBe(4);
  });

  it.each<[string, Answer]>([
    ['answers 503', answerError(503, 'SlowDown')],
    ['answers 429', answerError(429, 'SlowDown')],
    ['answers 500', answerError(500, 'InternalError')],
    ['refuses the time of the signature', (response, request) => answerError(403, 'RequestTimeTooSkewed')(response.setHeader('date', new Date(Date.now() + 3_600_000).toUTCString()), request)],
    ['closes the connection', (response) => response.destroy()],
    ['closes it in the middle of a refusal', (response) => response.writeHead(404, { 'content-length': 100 }).write('<Error>', () => response.destroy())],
  ])('are repeated by the SDK when the store %s', async (_, failure) => {
    await open();
    const calls: (() => Promise<unknown>)[] = [() => bucket.read(KEY), () => bucket.create(KEY, BYTES), () => bucket.upload(KEY, Readable.from([BYTES]))];
    await calls[0]?.();
    await calls[1]?.();
    for (const call of calls) {
      received.length = 0;
      retries = 0;
      answer = (response, request) => {
        answer = answerFound;
        failure(response, request);
      };
      await call();
      expect(received.map(isDirect)).toEqual([true, false]);
      expect(retries).toBe(1);
    }
  });

  it.each<[string, Answer]>([
    ['closes the connection in the middle of an object', (response) => response.writeHead(200, found()).write('{', () => response.destroy())],
    ['sends other bytes than it says', (response) => response.writeHead(200, found(crc32Of(Buffer.from('other')))).end(BYTES)],
  ])('are repeated when the store %s', async (_, failure) => {
    await open();
    await read();
    answer = (response, request) => {
      answer = answerFound;
      failure(response, request);
    };
    expect(await read()).toBe(BYTES.toString());
    expect(retries).toBe(1);
    expect(received.map(isDirect)).toEqual([false, true, true]);
  });

  it('keep their connection after a refusal', async () => {
    await open();
    await read();
    const ports: unknown[] = [];
    answer = (response, request) => {
      ports.push(request.socket.remotePort);
      answerError(404, 'NoSuchKey')(response, request);
    };
    for (let times = 0; times < 3; times++) expect(await bucket.read(KEY)).toBeUndefined();
    expect(new Set(ports).size).toBe(1);
  });

  it('do not compare checksums unless the SDK asks for them', async () => {
    vi.stubEnv('AWS_RESPONSE_CHECKSUM_VALIDATION', 'when_required');
    await open();
    await read();
    answer = (response) => response.writeHead(200, found(crc32Of(Buffer.from('other')))).end(BYTES);
    expect(await read()).toBe(BYTES.toString());
    expect(received.map(isDirect)).toEqual([false, true]);
  });

  it.each<[string, number, Answer, number]>([
    ['ten in a row that the SDK does not get', 10, answerFound, 0],
    ['fewer', 9, answerFound, 1],
    ['ten in a row that the SDK gets too', 10, answerError(403, 'AccessDenied'), 1],
  ])('end after refusals: %s', async (_, times, answerToSdk, expected) => {
    await open();
    await read();
    answer = (response, request) => (request.headers['amz-sdk-request'] === undefined ? answerError(403, 'AccessDenied') : answerToSdk)(response, request);
    for (let count = 0; count < times; count++) await read().catch(() => undefined);
    received.length = 0;
    answer = answerFound;
    expect(await read()).toBe(BYTES.toString());
    expect(received.filter(isDirect)).toHaveLength(expected);
  });

  it('are sent only after a request of the SDK that succeeded', async () => {
    await open();
    answer = answerError(404, 'NoSuchKey');
    expect([await bucket.read(KEY), await bucket.read(KEY)]).toEqual([undefined, undefined]);
    answer = answerFound;
    expect([await read(), await read()]).toEqual([BYTES.toString(), BYTES.toString()]);
    expect(received.map(isDirect)).toEqual([false, false, false, true]);
  });

  it('have no range after one with a range', async () => {
    await open();
    await bucket.open(KEY, { first: 0, last: 4 });
    await read();
    expect(received.map(({ headers }) => headers.range)).toEqual(['bytes=0-4', undefined]);
  });

  it('do not check the checksum of the parts of an object', async () => {
    await open();
    await read();
    answer = (response) => response.writeHead(200, { ...found('AAAAAA==-2'), 'x-amz-checksum-type': 'COMPOSITE' }).end(BYTES);
    expect(await read()).toBe(BYTES.toString());
    expect(received.map(isDirect)).toEqual([false, true]);
  });

  it.each<[string, Answer, () => Promise<unknown>, unknown]>([
    ['a missing object', answerError(404, 'NoSuchKey'), () => bucket.read(KEY), undefined],
    ['a range beyond the end', answerError(416, 'InvalidRange'), async () => text(Readable.from((await bucket.open(KEY, { first: 90, last: 99 })) ?? [])), ''],
    ['a taken key', answerError(412, 'PreconditionFailed'), () => bucket.create(KEY, BYTES), undefined],
    ['another version', answerError(412, 'PreconditionFailed'), () => bucket.replace(KEY, BYTES, '"1"'), undefined],
    ['a missing version', answerError(404, 'NoSuchKey'), () => bucket.replace(KEY, BYTES, '"1"'), undefined],
  ])('need no second request for %s', async (_, refusal, call, expected) => {
    await open();
    await call();
    answer = (response, request) => (request.method === 'HEAD' ? response.writeHead(404).end() : refusal(response, request));
    expect(await call()).toEqual(expected);
    expect(received.filter(({ method }) => method !== 'HEAD').map(isDirect)).toEqual([false, true]);
    expect(retries).toBe(0);
  });

  it('are repeated directly after a conflict with another write', async () => {
    await open();
    await bucket.create(KEY, BYTES);
    let conflicts = 2;
    answer = (response, request) => {
      if (request.method === 'HEAD') response.writeHead(404).end();
      else (conflicts-- > 0 ? answerError(409, 'ConditionalRequestConflict') : answerFound)(response, request);
    };
    expect(await bucket.create(KEY, BYTES)).toBe('"1"');
    expect(received.filter(({ method }) => method !== 'HEAD').map(isDirect)).toEqual([false, true, true, true]);
    expect(retries).toBe(2);
  });

  it.each<[string, string, () => Promise<unknown>]>([
    ['a read', 'NoSuchBucket', () => bucket.read(KEY)],
    ['a creation', 'NoSuchBucket', () => bucket.create(KEY, BYTES)],
  ])("reject with the SDK's error: %s", async (_, name, call) => {
    await open();
    await call();
    answer = answerError(404, name);
    await expect(call()).rejects.toMatchObject({ name, message: 'No.' });
    expect(received.map(isDirect)).toEqual([false, true, false]);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['a read', () => bucket.read(KEY)],
    ['a creation', () => bucket.create(KEY, BYTES)],
  ])('are not repeated when the store is silent: %s', async (_, call) => {
    await open({ timeoutMs: 1_000 });
    await call();
    answer = () => undefined;
    await expect(call()).rejects.toBeInstanceOf(StoreSilentError);
    expect(received.map(isDirect)).toEqual([false, true]);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['a creation', () => bucket.create(KEY, BYTES)],
    ['a replacement', () => bucket.replace(KEY, BYTES, '"1"')],
  ])('recognize the object that they wrote although the answer was lost: %s', async (_, call) => {
    await open();
    await call();
    let writeId: string | undefined;
    answer = (response, request) => {
      if (request.method === 'HEAD') response.writeHead(200, { ...found(), 'x-amz-meta-write-id': writeId }).end();
      else if (writeId !== undefined) answerError(412, 'PreconditionFailed')(response, request);
      else {
        writeId = String(request.headers['x-amz-meta-write-id']);
        response.destroy();
      }
    };
    expect(await call()).toBe('"1"');
    expect(received.map((request) => [request.method, isDirect(request)])).toEqual([['PUT', false], ['PUT', true], ['PUT', false], ['HEAD', false]]);
  });
});
