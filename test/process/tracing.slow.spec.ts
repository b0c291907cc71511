import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createNetServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { AUDIENCE, jwkOf, now, rsaKey, signToken } from '../../src/testing/test-issuer.js';
import { freePort } from '../servers/server.mjs';
import { OtlpReceiver } from '../support/otlp-receiver.js';
import { Workspace } from '../support/process.js';
import { selfSigned } from '../servers/self-signed.mjs';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical';
const QUERY = 'customer_id=acme-energy&filename=load.csv&manufacturer=m';
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`;
const KEYCLOAK = { IDENTITY_PROVIDER: 'keycloak', KEYCLOAK_REALM: 'loads', KEYCLOAK_CLIENT_ID: 'service', KEYCLOAK_CLIENT_SECRET: 'secret' };
describe('with Keycloak', () => {
  it('its calls have the traceparent of the request for which they are made', async () => {
    const key = rsaKey();
    const seen: { path: string; traceparent: string | undefined }[] = [];
    const keycloak = createServer((request, response) => {
      const { url: path = '', headers } = request;
      seen.push({ path, traceparent: headers.traceparent?.toString() });
      request.resume();
      if (path.endsWith('/certs')) response.end(JSON.stringify({ keys: [jwkOf(key, { kid: 'k', use: 'sig' })] }));
      else response.writeHead(503).end();
    }).listen(0, '127.0.0.1');
    await once(keycloak, 'listening');
    const url = `http://127.0.0.1:${(keycloak.address() as AddressInfo).port}`;
    const [workspace, receiver, port] = await Promise.all([Workspace.create(), OtlpReceiver.start(), freePort()]);
    try {
      const program = workspace.launch({ ...receiver.variables, ...KEYCLOAK, KEYCLOAK_URL: url, PORT: String(port) });
      const origin = `http://127.0.0.1:${port}`;
      // The service never becomes ready, because this Keycloak gives it no token.
      await expect.poll(() => fetch(`${origin}/health/live`).then(({ ok }) => ok, () => false), { timeout: 30_000 }).toBe(true);
      const token = signToken(key, { alg: 'RS256', kid: 'k' }, { iss: `${url}/realms/loads`, aud: AUDIENCE, sub: 's', exp: now() + 60, permissions: ['read:users'] });
      const answer = await fetch(`${origin}/idpManagementBackend/users`, { headers: { authorization: `Bearer ${token}`, traceparent: TRACEPARENT, 'x-request-id': 'failing' } });
      expect(answer.status).toBe(503);
      const logged = () => program.lines.filter((line) => line.includes('"requestId":"failing"')).map((line) => JSON.parse(line) as { level: number; trace_id?: string });
      // The failure, and the request.
      await expect.poll(() => logged().length).toBeGreaterThan(1);
      expect(logged().map(({ trace_id }) => trace_id)).toEqual(logged().map(() => TRACE));
      const request = await receiver.span('GET /idpManagementBackend/users');
      expect(request).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, hasFailed: true, attributes: { 'error.type': 'provider-unavailable' } });
      const asked = seen.filter(({ traceparent }) => traceparent?.includes(TRACE));
      expect(asked.map(({ path }) => path)).toContain('/realms/loads/protocol/openid-connect/token');
      for (const { traceparent = '' } of asked) {
        const [, , parent] = traceparent.split('-');
        await expect.poll(() => receiver.spans.find(({ spanId }) => spanId === parent)).toMatchObject({ traceId: TRACE, kind: 'client' });
      }
    } finally {
      await workspace.dispose();
      await receiver.stop();
      keycloak.close();
    }
  });
});

describe('with a sampler', () => {
  it('only requests that it takes are traced, and all are served', async () => {
    const [workspace, receiver] = await Promise.all([Workspace.create(), OtlpReceiver.start()]);
    try {
      const service = await workspace.start({ ...receiver.variables, OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' });
      const upload = (headers: Record<string, string> = {}) => fetch(`${service.url}${UPLOAD}?${QUERY}`, { method: 'POST', headers });
      const answers = [await upload(), await upload({ traceparent: TRACEPARENT }), await upload({ traceparent: TRACEPARENT.replace(/01$/, '00') })];
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
      // It exports what is left before it ends.
      expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
      const request = await receiver.span(`POST ${UPLOAD}`);
      expect(request).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, attributes: { 'load_data.upload_id': answers[1]?.headers.get('x-upload-id') } });
      expect(receiver.below(request)).toContain('UploadLoadData > FileStorage.store');
      expect(receiver.spans.filter(({ name }) => name.startsWith('POST'))).toEqual([request]);
      expect(receiver.spans.filter(({ traceId }) => traceId !== TRACE)).toEqual([]);
    } finally {
      await workspace.dispose();
      await receiver.stop();
    }
  });
});

describe('with a name and limits', () => {
  it('spans have the name of the service, and texts of at most that length', async () => {
    const [workspace, receiver] = await Promise.all([Workspace.create(), OtlpReceiver.start()]);
    try {
      const service = await workspace.start({ ...receiver.variables, OTEL_SERVICE_NAME: 'grid', OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: '8', OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT: '2' });
      const answer = await fetch(`${service.url}${UPLOAD}?${QUERY}`, { method: 'POST', headers: { 'x-request-id': 'long-enough' } });
      expect(answer.status).toBe(200);
      const { attributes, resource } = await receiver.span(`POST ${UPLOAD}`);
      expect(resource).toMatchObject({ 'service.name': 'grid' });
      expect(attributes).toEqual({ 'http.request.method': 'POST', 'url.path': UPLOAD.slice(0, 8) });
    } finally {
      await workspace.dispose();
      await receiver.stop();
    }
  });
});

describe.runIf(spawnSync('openssl', ['version']).status === 0)('over TLS', () => {
  it('the receiver is known by its certificate, and the service by that of a client', async () => {
    const workspace = await Workspace.create();
    const [its, clients] = await Promise.all([selfSigned(workspace.directory, 'receiver'), selfSigned(workspace.directory, 'client')]);
    const receiver = await OtlpReceiver.start({ cert: its.certificate, key: its.key, ca: clients.certificate, requestCert: true, rejectUnauthorized: true });
    try {
      const client = { OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: clients.certificatePath, OTEL_EXPORTER_OTLP_CLIENT_KEY: clients.keyPath };
      const upload = async (variables: Record<string, string>) => {
        const service = await workspace.start({ ...receiver.variables, ...variables });
        expect((await fetch(`${service.url}${UPLOAD}?${QUERY}`, { method: 'POST' })).status).toBe(200);
        expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
        return receiver.spans.length;
      };
      expect(await upload({ OTEL_EXPORTER_OTLP_CERTIFICATE: its.certificatePath })).toBe(0);
      expect(await upload(client)).toBe(0);
      expect(await upload({ ...client, OTEL_EXPORTER_OTLP_CERTIFICATE: its.certificatePath })).toBeGreaterThan(0);
    } finally {
      await workspace.dispose();
      await receiver.stop();
    }
  });
});

/**
 * The modules whose code a process has loaded, from the coverage that it wrote (NODE_V8_COVERAGE). A file of the bundle
 * names each module before the module's code.
 */
async function loadedModules(coverage: string): Promise<string[]> {
  const reports = await Promise.all((await readdir(coverage)).map((name) => readFile(join(coverage, name), 'utf8')));
  const urls = new Set(reports.flatMap((report) => (JSON.parse(report) as { result: { url: string }[] }).result.map(({ url }) => url)));
  const files = [...urls].filter((url) => url.startsWith('file:')).map((url) => fileURLToPath(url));
  const bundled = await Promise.all(files.filter((path) => path.includes('/dist/bundle/')).map((path) => readFile(path, 'utf8')));
  return [...files, ...bundled.flatMap((text) => [...text.matchAll(/^\/\/ (node_modules\/\S+)$/gm)].map(([, name = '']) => name))];
}

describe('without a receiver of traces', () => {
  const withWorkspace = async (work: (workspace: Workspace) => Promise<void>) => {
    const workspace = await Workspace.create();
    try {
      await work(workspace);
    } finally {
      await workspace.dispose();
    }
  };

  it.each<[string, Record<string, string>]>([
    ['no variable asks for traces', {}],
    ['OTEL_SDK_DISABLED', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_SDK_DISABLED: 'true' }],
    ['OTEL_TRACES_EXPORTER=none', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_TRACES_EXPORTER: 'none' }],
  ])('nothing of OpenTelemetry is loaded: %s', (_name, variables) =>
    withWorkspace(async (workspace) => {
      const coverage = join(workspace.directory, 'coverage');
      const service = await workspace.start({ ...variables, NODE_V8_COVERAGE: coverage });
      expect((await fetch(`${service.url}${UPLOAD}?${QUERY}`, { method: 'POST', headers: { traceparent: TRACEPARENT } })).status).toBe(200);
      await service.program.end('SIGTERM');
      const modules = await loadedModules(coverage);
      expect(modules.some((path) => path.includes('prom-client'))).toBe(true);
      // prom-client loads the API for itself.
      expect(modules.filter((path) => /@opentelemetry\/(?!api\/)/.test(path))).toEqual([]);
    }),
  );

  it('requests are served, and the log says once that traces are lost', () =>
    withWorkspace(async (workspace) => {
      const service = await workspace.start({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_EXPORTER_OTLP_TIMEOUT: '100', OTEL_BSP_SCHEDULE_DELAY: '10' });
      const upload = () => fetch(`${service.url}${UPLOAD}?${QUERY}`, { method: 'POST' });
      expect((await upload()).status).toBe(200);
      await service.program.line(/Traces could not be exported/);
      expect((await upload()).status).toBe(200);
      expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
      expect(service.program.lines.filter((line) => line.includes('Traces could not be exported'))).toHaveLength(1);
      expect(service.program.stderr).toBe('');
    }));

  it('the store is closed before the end, even if the receiver never answers', () =>
    withWorkspace(async (workspace) => {
      const sockets: Socket[] = [];
      const silent = createNetServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
      await once(silent, 'listening');
      const { port } = silent.address() as AddressInfo;
      const service = await workspace.start({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
      const answer = await fetch(`${service.url}${UPLOAD}?${QUERY}`, { method: 'POST', headers: { 'content-type': 'text/csv' }, body: '0123456789' });
      expect(answer.status).toBe(200);
      const view = new DataDirectoryView(workspace.data);
      const journals = async () => (await view.files('pending')).filter((path) => path.endsWith('.journal'));
      expect((await journals()).length).toBeGreaterThan(0);
      expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
      expect(sockets).toHaveLength(1);
      expect(await journals()).toEqual([]);
      expect(await view.contentPaths()).toHaveLength(1);
      expect(service.program.lines.filter((line) => /The last traces were lost|Closing took longer/.test(line))).toEqual([expect.stringContaining('The last traces were lost')]);
      for (const socket of sockets) socket.destroy();
      silent.close();
    }));
});
