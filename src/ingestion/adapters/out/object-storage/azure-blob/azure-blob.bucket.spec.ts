import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MIB } from '../../../../../common/sizes.js';
import { StoreSilentError } from '../bucket.js';
import { AzureBlobBucket } from './azure-blob.bucket.js';

const DATE = 'Tue, 10 Mar 2026 12:00:00 GMT';

/** The bucket against Azurite is in `test/integration`. */
describe('AzureBlobBucket', () => {
  let server: Server;
  /** The statuses of the next answers. */
  let statuses: number[];
  let retries: number;
  let bucket: AzureBlobBucket;

  let handle: (...exchange: Parameters<RequestListener>) => unknown;

  const open = (timeoutMs: number, maxUploadBytes = 0) =>
    new AzureBlobBucket({
      container: 'load-data',
      account: { connectionString: `DefaultEndpointsProtocol=http;BlobEndpoint=http://127.0.0.1:${(server.address() as AddressInfo).port}/account;AccountName=account;AccountKey=a2V5` },
      timeoutMs,
      maxUploadBytes,
      onRetry: () => { retries += 1; },
    });

  beforeEach(async () => {
    handle = (request, response) => {
      request.resume().once('end', () => response.writeHead(statuses.shift() ?? 500, { etag: '"1"', date: DATE }).end());
    };
    server = createServer((request, response) => void handle(request, response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    retries = 0;
    bucket = open(10_000);
  });
  afterEach(() => {
    bucket.close();
    server.closeAllConnections();
    server.close();
  });

  describe('with a time-out of a second', () => {
    it('reads an object for longer, as long as bytes arrive', async () => {
      handle = async (_, response) => {
        response.writeHead(200, { etag: '"1"', date: DATE, 'last-modified': DATE, 'content-length': 8 });
        for (const byte of 'thebytes') {
          response.write(byte);
          await delay(200);
        }
        response.end();
      };
      expect((await open(1_000).read('key'))?.bytes.toString()).toBe('thebytes');
    });

    /** Up to this length, a file is sent in one block that is longer than what the kernel takes at once. */
    const MOST_BYTES = 50_000 * 32 * MIB;
    const file = async function* () {
      for (let piece = 0; piece < 32; piece++) yield await Promise.resolve(Buffer.alloc(MIB));
      yield Buffer.from('the end');
    };

    it.each<[string, (bucket: AzureBlobBucket) => Promise<unknown>, number]>([
      ['an object', (each) => each.create('key', Buffer.alloc(32 * MIB)), 32 * MIB],
      ['a block of a file', (each) => each.upload('key', file()), 32 * MIB + 'the end'.length],
    ])('writes %s for longer, as long as the store accepts bytes', async (_, write, size) => {
      let length = 0;
      handle = async (request, response) => {
        const isList = request.url?.includes('comp=blocklist') === true;
        for await (const chunk of request as AsyncIterable<Buffer>) {
          if (isList) continue;
          const before = length;
          length += chunk.length;
          if (Math.floor(before / (4 * MIB)) < Math.floor(length / (4 * MIB))) await delay(200);
        }
        response.writeHead(201, { etag: '"1"', date: DATE }).end();
      };
      await write(open(1_000, MOST_BYTES));
      expect(length).toBe(size);
    });

    it.each<[string, (bucket: AzureBlobBucket) => Promise<unknown>]>([
      ['in the middle of an answer', (each) => each.read('key')],
      ['in the middle of a long object', (each) => each.create('key', Buffer.alloc(32 * MIB))],
    ])('rejects when the store falls silent %s', async (_, call) => {
      handle = (request, response) => {
        request.pause();
        if (request.method === 'GET') response.writeHead(200, { etag: '"1"', date: DATE, 'last-modified': DATE, 'content-length': 8 }).write('the');
      };
      await expect(call(open(1_000))).rejects.toBeInstanceOf(StoreSilentError);
    });
  });

  it.each<[string, number[], number]>([
    ['that is answered', [201], 0],
    ['that is repeated twice', [503, 500, 201], 2],
  ])('reports each repeat of a request %s', async (_, answers, repeats) => {
    statuses = answers;
    expect(await bucket.create('key', Buffer.from('bytes'))).toBe('"1"');
    expect(retries).toBe(repeats);
  });

  it('lists each object once, although the store repeats keys and a page', async () => {
    const pages = [['a', 'b'], ['b', 'c'], ['b', 'c'], ['d', 'd']];
    handle = (request, response) => {
      const page = Number(new URL(request.url ?? '', 'http://localhost').searchParams.get('marker') ?? 0);
      const blobs = (pages[page] ?? []).map((key) => `<Blob><Name>${key}</Name><Properties><Last-Modified>${DATE}</Last-Modified><Content-Length>5</Content-Length></Properties></Blob>`);
      const next = page + 1 < pages.length ? page + 1 : '';
      response.writeHead(200, { date: DATE, 'content-type': 'application/xml' });
      response.end(`<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>${blobs.join('')}</Blobs><NextMarker>${next}</NextMarker></EnumerationResults>`);
    };
    const listed: string[] = [];
    for await (const { key } of bucket.list('')) listed.push(key);
    expect(listed).toEqual(['a', 'b', 'c', 'd']);
  });

  it('lists each directory once, although a page begins with the last one of the page before', async () => {
    const pages = [['a/', 'b/'], ['b/', 'c/']];
    handle = (request, response) => {
      const page = Number(new URL(request.url ?? '', 'http://localhost').searchParams.get('marker') ?? 0);
      const prefixes = (pages[page] ?? []).map((name) => `<BlobPrefix><Name>${name}</Name></BlobPrefix>`);
      const next = page + 1 < pages.length ? page + 1 : '';
      response.writeHead(200, { date: DATE, 'content-type': 'application/xml' });
      response.end(`<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>${prefixes.join('')}</Blobs><NextMarker>${next}</NextMarker></EnumerationResults>`);
    };
    const listed: string[] = [];
    for await (const directory of bucket.listDirectories('')) listed.push(directory);
    expect(listed).toEqual(['a/', 'b/', 'c/']);
  });

  it.each<[string, number, () => Promise<unknown>]>([
    ['to a removal', 202, () => bucket.remove(['key'])],
    ['that refuses a request', 403, () => bucket.read('key').catch(() => undefined)],
  ])("knows the store's clock from an answer %s", async (_, status, call) => {
    statuses = [status];
    await call();
    expect(Math.abs(bucket.storeTime - Date.parse(DATE))).toBeLessThan(60_000);
  });
});
