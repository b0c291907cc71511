import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openBucket } from './bucket.factory.js';

let server: Server;
/** The statuses of the next answers. */
let statuses: number[];

beforeEach(async () => {
  server = createServer((request, response) => {
    request.resume().once('end', () => response.writeHead(statuses.shift() ?? 500, { etag: '"1"' }).end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

/** `test/integration/store-faults.spec.ts` shows it for S3. */
it('reports the calls to Azure, and each request that is repeated', async () => {
  const calls: string[] = [];
  let retries = 0;
  const { port } = server.address() as AddressInfo;
  const connectionString = `DefaultEndpointsProtocol=http;BlobEndpoint=http://127.0.0.1:${port}/account;AccountName=account;AccountKey=a2V5`;
  const bucket = await openBucket({ adapter: 'azure', container: 'load-data', account: { connectionString }, timeoutMs: 10_000 }, 1, {
    observeCall: (operation, call) => {
      calls.push(operation);
      return call();
    },
    onRetry: () => { retries += 1; },
  });
  statuses = [503, 500, 201];
  expect(await bucket.create('key', Buffer.from('bytes'))).toBe('"1"');
  expect({ calls, retries }).toEqual({ calls: ['create'], retries: 2 });
  bucket.close();
});
