import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startAzurite } from '../servers/azurite.mjs';
import { decodeTraces, isDecoderAvailable } from '../servers/opentelemetry-proto.mjs';
import { isOtelCollectorAvailable, startOtelCollector } from '../servers/otel-collector.mjs';
import { OtlpReceiver } from '../support/otlp-receiver.js';
import { Workspace } from '../support/process.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical';
const QUERY = 'customer_id=acme&filename=load.csv&manufacturer=m';
const CONTAINER = 'load-data';
const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const PARENT_SPAN_ID = 'b7ad6b7169203331';
const traceparent = `00-${TRACE_ID}-${PARENT_SPAN_ID}-01`;

let workspace: Workspace;
beforeEach(async () => {
  workspace = await Workspace.create();
});
afterEach(() => workspace.dispose());

it.each<[string, Record<string, string>, string, string[]]>([
  ['without a file', { 'content-type': 'application/json' }, '{"additional_data":"meter 7"}', ['UploadLoadData > FileStorage.store > wait for the index', 'UploadLoadData > FileStorage.store > wait for the index > Bucket.create']],
  ['with a small file', { 'content-type': 'text/csv' }, 'a,b', ['UploadLoadData > FileStorage.store > wait for a batch > Bucket.upload', 'UploadLoadData > FileStorage.store > wait for a batch > Bucket.create']],
  ['with a longer file', { 'content-type': 'text/csv' }, 'a'.repeat(100_000), ['UploadLoadData > FileStorage.store > Bucket.upload', 'UploadLoadData > FileStorage.store > Bucket.create']],
])('an upload to a bucket has spans of the calls to the bucket: one %s', async (_name, headers, body, expected) => {
  const [azurite, receiver] = await Promise.all([startAzurite(), OtlpReceiver.start()]);
  try {
    await azurite.createContainer(CONTAINER);
    const { url } = await workspace.start({ ...receiver.variables, FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: CONTAINER, AZURE_STORAGE_CONNECTION_STRING: azurite.connectionString });
    expect((await fetch(`${url}${UPLOAD}?${QUERY}`, { method: 'POST', headers, body })).status).toBe(200);
    const span = await receiver.span(`POST ${UPLOAD}`);
    expect(receiver.below(span)).toEqual(expect.arrayContaining(expected));
  } finally {
    await receiver.stop();
    await azurite.stop();
  }
});

describe.runIf(isDecoderAvailable())('traces as protobuf, which is the default', () => {
  it("are read by the protocol's own library", async () => {
    const bodies: Buffer[] = [];
    const types: unknown[] = [];
    const receiver = createServer((request, response) => {
      void buffer(request).then((body) => {
        bodies.push(body);
        types.push(request.headers['content-type']);
        response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
      });
    }).listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    try {
      const { port } = receiver.address() as AddressInfo;
      const service = await workspace.start({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
      expect((await fetch(`${service.url}${UPLOAD}?${QUERY}`, { method: 'POST', headers: { traceparent } })).status).toBe(200);
      // Ending the service exports what it has.
      expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
      expect(types).toEqual(['application/x-protobuf']);
      const { resourceSpans } = await decodeTraces(bodies[0] ?? Buffer.alloc(0));
      const spans = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
      expect(spans.map(({ name }) => name).sort()).toEqual(['FileStorage.store', `POST ${UPLOAD}`, 'UploadLoadData', 'wait for the index']);
      for (const { traceId } of spans) expect(Buffer.from(traceId, 'base64').toString('hex')).toBe(TRACE_ID);
    } finally {
      receiver.closeAllConnections();
      receiver.close();
    }
  });
});

describe.runIf(isOtelCollectorAvailable())('an OpenTelemetry Collector', () => {
  it.each<['' | 'gzip', Record<string, string>]>([
    ['', {}],
    ['gzip', { OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip' }],
  ])("receives traces, Content-Encoding '%s'", async (encoding, variables) => {
    const collector = await startOtelCollector({ encoding });
    try {
      const service = await workspace.start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint, ...variables });
      expect((await fetch(`${service.url}${UPLOAD}?${QUERY}`, { method: 'POST', headers: { traceparent } })).status).toBe(200);
      // Ending the service exports what it has.
      expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
      await expect.poll(() => collector.spans.map(({ name }) => name).sort()).toEqual(['FileStorage.store', `POST ${UPLOAD}`, 'UploadLoadData', 'wait for the index']);
      for (const { traceId } of collector.spans) expect(traceId).toBe(TRACE_ID);
      expect(collector.spans.find(({ name }) => name.startsWith('POST'))?.parentSpanId).toBe(PARENT_SPAN_ID);
    } finally {
      await collector.stop();
    }
  });
});
