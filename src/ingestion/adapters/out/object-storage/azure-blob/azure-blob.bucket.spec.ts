import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AzureBlobBucket } from './azure-blob.bucket.js';

const DATE = 'Tue, 10 Mar 2026 12:00:00 GMT';

/** The bucket against Azurite is in `test/integration`. */
describe('AzureBlobBucket', () => {
  let server: Server;
  /** The statuses of the next answers. */
  let statuses: number[];
  let retries: number;
  let bucket: AzureBlobBucket;

  beforeEach(async () => {
    server = createServer((request, response) => {
      request.resume().once('end', () => response.writeHead(statuses.shift() ?? 500, { etag: '"1"', date: DATE }).end());
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    retries = 0;
    bucket = new AzureBlobBucket({
      container: 'load-data',
      account: { connectionString: `DefaultEndpointsProtocol=http;BlobEndpoint=http://127.0.0.1:${(server.address() as AddressInfo).port}/account;AccountName=account;AccountKey=a2V5` },
      timeoutMs: 10_000,
      onRetry: () => { retries += 1; },
    });
  });
  afterEach(() => {
    bucket.close();
    server.closeAllConnections();
    server.close();
  });

  it.each<[string, number[], number]>([
    ['that is answered', [201], 0],
    ['that is repeated twice', [503, 500, 201], 2],
  ])('reports each repeat of a request %s', async (_, answers, repeats) => {
    statuses = answers;
    expect(await bucket.create('key', Buffer.from('bytes'))).toBe('"1"');
    expect(retries).toBe(repeats);
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
