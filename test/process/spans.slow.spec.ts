import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.js';
import { type ServiceProcess, Workspace } from '../support/process.js';
import { open } from '../support/raw.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical';
const QUERY = 'customer_id=acme-energy&filename=load.csv&manufacturer=m';
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`;

/** The lines of a service's log about requests, by their `requestId`. */
const logLines = ({ program }: ServiceProcess, requestId: string) =>
  program.lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>).filter((line) => line.requestId === requestId);

describe('with a receiver of traces', () => {
  let workspace: Workspace;
  let receiver: OtlpReceiver;
  let webhook: WebhookReceiver;
  let service: ServiceProcess;
  let token: string;
  beforeAll(async () => {
    workspace = await Workspace.create();
    [receiver, webhook] = await Promise.all([OtlpReceiver.start(), WebhookReceiver.answering()]);
    const headers = join(workspace.directory, 'headers');
    await writeFile(headers, 'x-key-of-file=f\n');
    service = await workspace.start({ ...receiver.variables, ...webhook.variables, OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test', OTEL_EXPORTER_OTLP_HEADERS: 'x-key=k', OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE: headers });
    token = (await workspace.token()).stdout.trim();
  });
  afterAll(async () => {
    await workspace.dispose();
    await Promise.all([receiver.stop(), webhook.close()]);
  });

  const send = async (id: string, init: RequestInit, path = `${UPLOAD}?${QUERY}`) => {
    const headers = { 'x-request-id': id, ...(init.headers as Record<string, string>) };
    return fetch(service.url + path, { ...init, headers });
  };
  const spanOf = (name: string, id: string): Promise<ReceivedSpan> => receiver.span(name, ({ attributes }) => String(attributes['http.response.header.x-request-id']) === id);

  it.each<[string, RequestInit, string]>([
    ['JSON', { headers: { 'content-type': 'application/json' }, body: '{"additional_data":"meter 7"}' }, 'wait for the index'],
    ['a small file', { headers: { 'content-type': 'text/csv' }, body: 'a,b' }, 'wait for a journal'],
    ['a larger file', { headers: { 'content-type': 'text/csv' }, body: 'a'.repeat(100_000) }, 'wait for the index'],
  ])('an upload has a span, with its use case, the store and the wait for a flush below it: %s', async (name, init, wait) => {
    const id = `upload-${name.replaceAll(' ', '-')}`;
    const answer = await send(id, { method: 'POST', ...init });
    expect(answer.status).toBe(200);
    const span = await spanOf(`POST ${UPLOAD}`, id);
    expect(span).toMatchObject({
      kind: 'server',
      parentSpanId: undefined,
      hasFailed: false,
      attributes: { 'http.request.method': 'POST', 'http.route': UPLOAD, 'http.response.status_code': 200, 'url.path': UPLOAD, 'load_data.upload_id': answer.headers.get('x-upload-id') },
      resource: { 'service.name': 'load-data-service', 'deployment.environment.name': 'test' },
    });
    expect(receiver.below(span)).toEqual(expect.arrayContaining(['UploadLoadData', 'UploadLoadData > FileStorage.store', `UploadLoadData > FileStorage.store > ${wait}`]));
    expect(receiver.headers).toMatchObject({ 'x-key': 'k', 'x-key-of-file': 'f' });
  });

  it('a request continues the trace of its traceparent, and the log names it', async () => {
    await send('continued', { method: 'POST', headers: { traceparent: TRACEPARENT } });
    expect(await spanOf(`POST ${UPLOAD}`, 'continued')).toMatchObject({ traceId: TRACE, parentSpanId: PARENT });
    await expect.poll(() => logLines(service, 'continued'), { interval: 20 }).toEqual([expect.objectContaining({ msg: 'request', trace_id: TRACE })]);
  });

  it.each<[string, string, RequestInit, string[]]>([
    ['create-role', '/idpManagementBackend/create-role', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"role_name":"Auditor","permissions":["read:users"]}' }, ['CreateRole', 'CreateRole > IdentityProvider.createRole']],
    ['roles', '/idpManagementBackend/roles', {}, ['ListRoles', 'ListRoles > IdentityProvider.listRoles']],
    ['uploads', '/uploads?customer_id=acme-energy', {}, ['ListUploads', 'ListUploads > StoredUploads.list']],
  ])('%s has spans of its use case and of the adapter', async (id, path, init, below) => {
    const answer = await send(id, { ...init, headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${token}` } }, path);
    await answer.arrayBuffer();
    expect(answer.ok).toBe(true);
    const span = await spanOf(`${init.method ?? 'GET'} ${path.split('?')[0] ?? ''}`, id);
    expect(receiver.below(span)).toEqual(below);
  });

  it('requests on one connection, one behind the other, have traces of their own', async () => {
    const ids = ['first', 'second', 'third'];
    const socket = await open(service.port);
    socket.write(ids.map((id) => `POST ${UPLOAD}?${QUERY} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${id}\r\nContent-Length: 0\r\n\r\n`).join(''));
    const spans = await Promise.all(ids.map((id) => spanOf(`POST ${UPLOAD}`, id)));
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(3);
    for (const span of spans) expect(receiver.below(span)).toContain('UploadLoadData > FileStorage.store');
    socket.destroy();
  });

  it('a refusal is named, and does not count as a failure of the service', async () => {
    await send('refused', { method: 'POST' }, UPLOAD);
    expect(await spanOf(`POST ${UPLOAD}`, 'refused')).toMatchObject({ hasFailed: false, attributes: { 'http.response.status_code': 400, 'error.type': 'invalid-query-parameter' } });
  });

  it('the webhook gets the traceparent of its delivery', async () => {
    await send('delivered', { method: 'POST', headers: { 'content-type': 'text/csv' }, body: 'a,b' });
    await webhook.eventsUntil((events) => events.length > 0);
    const header = String(webhook.taken[0]?.headers.traceparent);
    const [, traceId, spanId] = header.split('-');
    const call = await receiver.span('POST', (span) => span.spanId === spanId);
    expect(call).toMatchObject({ traceId, kind: 'client', attributes: { 'http.request.method': 'POST', 'server.address': '127.0.0.1', 'http.response.status_code': 200 } });
    expect(await receiver.span('UploadEvents.deliver', (span) => span.spanId === call.parentSpanId)).toMatchObject({ parentSpanId: undefined });
  });

  it('no span contains a customer, and the requests of orchestrators have none', async () => {
    for (const path of ['/health/live', '/health/ready', '/metrics']) await fetch(service.url + path);
    await send('last', { method: 'POST' });
    await spanOf(`POST ${UPLOAD}`, 'last');
    expect(JSON.stringify(receiver.spans)).not.toMatch(/acme-energy|\/health|\/metrics|hook|secret/);
    expect(receiver.spans.filter(({ parentSpanId, name }) => parentSpanId === undefined && !/^(?:POST|GET) \/|^UploadEvents/.test(name))).toEqual([]);
  });
});
