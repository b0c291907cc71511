import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { parseEnvironment } from '../configuration/service.js';
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

it('signs requests to S3 with the credentials in the variables, which may be from files and not in the environment of the process', async () => {
  const signed: (string | undefined)[] = [];
  server.prependListener('request', ({ headers }: IncomingMessage) => {
    signed.push(/Credential=([^/]*)\//.exec(headers.authorization ?? '')?.[1], headers['x-amz-security-token']?.toString());
  });
  const { port } = server.address() as AddressInfo;
  const variables = { FILE_STORAGE: 's3', S3_BUCKET: 'b', S3_REGION: 'us-east-1', S3_ENDPOINT: `http://127.0.0.1:${port}`, S3_FORCE_PATH_STYLE: 'true' };
  const { fileStorage } = parseEnvironment({ ...variables, AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret', AWS_SESSION_TOKEN: 'token' });
  if (fileStorage.adapter !== 's3') throw new Error('The store is not S3.');
  const bucket = await openBucket(fileStorage, 1);
  statuses = [200];
  await bucket.create('key', Buffer.from('bytes'));
  expect(signed).toEqual(['id', 'token']);
  bucket.close();
});
