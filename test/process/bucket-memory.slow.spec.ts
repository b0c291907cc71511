import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { MIB } from '../../src/common/sizes.js';

/** As long as the longest segment that compaction makes. */
const LENGTH = 64 * MIB;
const DATE = 'Tue, 10 Mar 2026 12:00:00 GMT';
const isLinux = existsSync('/proc/self/clear_refs');

/** A store that has an object at every key: a long one at `long`, and otherwise a short one. */
let store: Server;
let origin: string;
beforeAll(async () => {
  const [short, long] = [Buffer.from('bytes'), Buffer.alloc(LENGTH, 'x')];
  store = createServer((request, response) => {
    const bytes = request.url?.includes('long') ? long : short;
    response.writeHead(200, { etag: '"1"', date: DATE, 'last-modified': DATE, 'content-length': bytes.length }).end(bytes);
  }).listen(0, '127.0.0.1');
  await once(store, 'listening');
  origin = `http://127.0.0.1:${(store.address() as AddressInfo).port}`;
});
afterAll(() => {
  store.closeAllConnections();
  store.close();
});

/** Reads an object in a process of its own. Prints the object's length, and by how much the process's memory grew. */
const PROGRAM = (adapter: string, name: string) => `
  import { readFileSync, writeFileSync } from 'node:fs';
  import { ${name} } from './dist/ingestion/adapters/out/object-storage/${adapter}.js';
  const bucket = new ${name}(JSON.parse(process.argv[1]));
  const kilobytes = (field) => Number(new RegExp('^' + field + ':\\\\s+(\\\\d+) kB', 'm').exec(readFileSync('/proc/self/status', 'utf8'))[1]);
  await bucket.read('short');
  writeFileSync('/proc/self/clear_refs', '5');
  const before = kilobytes('VmRSS');
  const { bytes } = await bucket.read('long');
  console.log(JSON.stringify({ length: bytes.length, growth: (kilobytes('VmHWM') - before) * 1024 }));
  process.exit();`;

it.runIf(isLinux).each<[string, string, string, () => object]>([
  ['S3', 's3/s3.bucket', 'S3Bucket', () => ({ endpoint: origin, region: 'us-east-1', forcePathStyle: true, credentials: { accessKeyId: 'a', secretAccessKey: 'b' } })],
  ['Azure', 'azure-blob/azure-blob.bucket', 'AzureBlobBucket', () => ({ container: 'load-data', account: { connectionString: `DefaultEndpointsProtocol=http;BlobEndpoint=${origin}/account;AccountName=account;AccountKey=a2V5` } })],
])('a long object of %s takes two and a half times its length at most while it is read', async (_, adapter, name, settings) => {
  const options = { bucket: 'load-data', prefix: '', timeoutMs: 30_000, maxUploadBytes: LENGTH, ...settings() };
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', PROGRAM(adapter, name), JSON.stringify(options)]);
  const { length, growth } = JSON.parse(stdout) as { length: number; growth: number };
  expect(length).toBe(LENGTH);
  expect(growth).toBeLessThan(2.5 * LENGTH);
});
