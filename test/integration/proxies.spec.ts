import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { rename, readFile } from 'node:fs/promises';
import { connect as connectHttp2 } from 'node:http2';
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MIB } from '../../src/common/sizes.js';
import { parseEnvironment } from '../../src/configuration/service.js';
import { freePort } from '../servers/server.mjs';
import { MISSING_PROXIES } from '../servers/proxies.mjs';
import { form, FORM_TYPE } from '../support/form.js';
import { HAPROXY, HAS_IPV6, NGINX, type RunningProxy, startProxy } from '../support/proxies.js';
import { readAnswer } from '../support/raw.js';
import { deploy, type Deployment, Replica, until } from '../support/replicas.js';
import { startService } from '../support/service.js';
import { type Answer, type Connection, type Protocol, PROTOCOLS, tlsConnection } from '../support/tls-client.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.csv&manufacturer=m';
const CSV = { 'Content-Type': 'text/csv' };
/** The size of a large upload: many times what all buffers on its way hold. */
const LARGE_BYTES = 256 * MIB;
/** The default of MAX_UPLOAD_BYTES. One upload through each proxy has this size, which is more than 32 bits can count. */
const LARGEST_BYTES = 5 * 1024 * MIB;
/** The pause between two requests of a client that sends them all the time, so that replicas start beside it. */
const PACE_MS = 20;
/** The bytes that large uploads repeat. */
const CHUNK = randomBytes(MIB);
/** What of a stream may be on its way to the store: in buffers of client, system, proxy and service. */
const ON_THE_WAY_BYTES = 32 * MIB;
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;
/** After how long 1.0.0 closes an idle connection at the earliest: Node's default. Newer versions of Node add a second. */
const IDLE_SECONDS_OF_1_0_0 = 5;
/** At least a year, and with all subdomains, as OWASP ASVS 3.4.1 says. */
const HSTS = 'max-age=31536000; includeSubDomains';
/** A header that every answer of the service has, and no answer of a proxy. */
const OF_THE_SERVICE = { 'x-content-type-options': 'nosniff' };

const errorOf = ({ status, headers, body }: Answer) => ({ status, type: headers['content-type'], body: JSON.parse(body) as unknown, id: REQUEST_ID.test(String(headers['x-request-id'])) });
const error = (status: number, text: string) => ({ status, type: 'application/json; charset=utf-8', body: { error: text }, id: true });

async function send(body: Writable, times: number): Promise<void> {
  for (let sent = 0; sent < times; sent++) if (!body.write(CHUNK)) await once(body, 'drain');
}

const digests = new Map<number, string>();
/** The SHA-256 of a large upload, in base64. It is computed once for each size, because that takes seconds. */
function digestOf(size: number): string {
  const known = digests.get(size);
  if (known !== undefined) return known;
  const hash = createHash('sha256');
  for (let hashed = 0; hashed < size; hashed += MIB) hash.update(CHUNK);
  const digest = hash.digest('base64');
  digests.set(size, digest);
  return digest;
}

for (const kind of [NGINX, HAPROXY]) describe.skipIf(MISSING_PROXIES.includes(kind.program))(`the service behind ${kind.name}`, () => {
  let deployment: Deployment;
  // Only HAProxy asks whether a replica is ready.
  beforeAll(async () => { deployment = await deploy(kind, kind === HAPROXY ? { SHUTDOWN_DELAY_MS: '3000' } : {}); });
  afterAll(() => deployment.dispose());

  describe('as shipped', () => {
    const connections: Connection[] = [];
    const open = (protocol: Protocol): Connection => {
      const connection = tlsConnection(protocol, deployment.proxy);
      connections.push(connection);
      return connection;
    };
    afterAll(() => {
      for (const connection of connections) connection.close();
    });

    describe.each(PROTOCOLS)('over %s', (protocol) => {
      it.each([
        ['JSON', 'application/json', '{"additional_data":"meter 7"}', { additional_data: 'meter 7', content_size: null }],
        ['a form', FORM_TYPE, form({ name: 'file', value: 'a,b', filename: 'load.csv' }), { additional_data: null, content_size: 3 }],
        ['a file', 'text/csv', randomBytes(MIB), { additional_data: null, content_size: MIB, content_type: 'text/csv' }],
      ])('takes %s', async (_name, type, body, line) => {
        const answer = await open(protocol).request(UPLOAD, { body, headers: { 'Content-Type': type } });
        expect(answer).toMatchObject({ status: 200, headers: OF_THE_SERVICE });
        const stored = (await deployment.lines()).filter(({ upload_id }) => upload_id === answer.headers['x-upload-id']);
        expect(stored).toEqual([expect.objectContaining(line)]);
      });

      it('streams a large upload, and writes nothing of it to its own disk', async () => {
        const size = protocol === 'HTTP/2' ? LARGEST_BYTES : LARGE_BYTES;
        const half = size / MIB / 2;
        const { body, answer } = open(protocol).begin(UPLOAD, { headers: { ...CSV, 'Content-Length': size } });
        await send(body, half);
        await until(async () => (await staged(deployment)) >= size / 2 - ON_THE_WAY_BYTES);
        expect(await deployment.proxy.openFiles()).toEqual([]);
        await send(body, half);
        body.end();
        expect(await answer).toMatchObject({ status: 200, headers: { 'x-upload-digest': `sha-256=:${digestOf(size)}:` } });
      }, 300_000);

      it('refuses an upload that waits for 100 Continue by its length, before it is sent', async () => {
        const { answer, isContinued } = open(protocol).begin(UPLOAD, { headers: { ...CSV, 'Content-Length': 6 * 1024 * MIB, Expect: '100-continue' } });
        expect({ ...errorOf(await answer), continued: isContinued() }).toEqual({ ...error(413, 'Payload too large.'), continued: false });
      });

      it('lets an upload that waits for 100 Continue begin', async () => {
        const { body, answer, continued } = open(protocol).begin(UPLOAD, { headers: { ...CSV, 'Content-Length': 3, Expect: '100-continue' } });
        // Over HTTP/2, nginx never answers 100 Continue, and clients send after a while.
        if (kind !== NGINX || protocol !== 'HTTP/2') await continued;
        body.end('a,b');
        expect((await answer).status).toBe(200);
      });

      it('passes a refusal on to an upload that waits for 100 Continue', async () => {
        const headers = { ...CSV, 'Content-Length': 3, Expect: '100-continue', Origin: 'https://elsewhere.example' };
        const { answer, isContinued } = open(protocol).begin(UPLOAD, { headers });
        expect(errorOf(await answer)).toEqual(error(403, 'Unauthorized.'));
        // Over HTTP/1.1, nginx answers 100 Continue itself, before it asks the service.
        expect(isContinued()).toBe(kind === NGINX && protocol === 'HTTP/1.1');
      });

      it("takes the client's request id if it is valid, and otherwise makes one", async () => {
        const connection = open(protocol);
        const id = `job-${protocol.replace('/', '-')}`;
        expect((await connection.request('/nowhere', { headers: { 'X-Request-Id': id } })).headers['x-request-id']).toBe(id);
        const made = String((await connection.request('/nowhere', { headers: { 'X-Request-Id': 'a b' } })).headers['x-request-id']);
        expect(made).toMatch(/^[0-9a-f-]{32,36}$/);
        for (const one of [id, made]) await until(async () => (await deployment.proxy.log()).includes(`"requestId":"${one}"`));
      });

      it.each([
        ['of the service', 'GET', '/health/live', {}, 200],
        ['of the service to an error', 'GET', '/nowhere', {}, 404],
        ['of the proxy', 'GET', '/metrics', {}, 404],
        ['for an upload that is refused by its length', 'POST', UPLOAD, { ...CSV, 'Content-Length': 6 * 1024 * MIB, Expect: '100-continue' }, 413],
      ])('demands TLS from browsers in an answer %s', async (_name, method, path, headers, status) => {
        const answer = await open(protocol).begin(path, { method, headers }).answer;
        expect([answer.status, answer.headers['strict-transport-security']]).toEqual([status, HSTS]);
      });

      it.each(['/metrics', '/load/v1/metrics', '/metric%73', '//metrics', '/x/../metrics', '/./metrics', '/METRICS', '/metrics?a', '/metrics/', '/metrics;a'])('has no %s', async (path) => {
        expect(errorOf(await open(protocol).request(path, { method: 'GET' }))).toEqual(error(404, 'Not found.'));
      });
    });

    it('lets a client send 1 MiB of an upload over HTTP/2 before the next answer of the proxy', async () => {
      const { port, certificate: ca } = deployment.proxy;
      let sentBytes = 0;
      const answers: Socket[] = [];
      const relay = createServer((client) => {
        const onward = connectTcp({ host: '127.0.0.1', port }).on('error', () => client.destroy());
        client.on('data', (part: Buffer) => (sentBytes += part.length)).on('error', () => onward.destroy());
        client.pipe(onward).pipe(client);
        answers.push(onward);
      }).listen(0, '127.0.0.1');
      await once(relay, 'listening');
      const session = connectHttp2(`https://127.0.0.1:${(relay.address() as AddressInfo).port}`, { ca });
      await once(session, 'connect');
      session.on('error', () => undefined);
      const begin = () => session.request({ ':method': 'POST', ':path': UPLOAD, ...CSV }).on('error', () => undefined);
      // Until it has received a body, HAProxy limits all uploads of a connection to 64 KiB.
      const first = begin().resume().end('a,b');
      await once(first, 'close');
      const upload = begin();
      // The first ping may overtake the request. With the answer to the second, the client has also got what the proxy
      // sent because of the request.
      for (let ping = 0; ping < 2; ping++) await new Promise((resolve) => session.ping(resolve));
      for (const answer of answers) answer.unpipe().pause();
      upload.write(Buffer.alloc(2 * MIB));
      await until(() => sentBytes >= MIB);
      session.destroy();
      for (const answer of answers) answer.destroy();
      relay.close();
    });

    it('logs neither tokens nor the query', async () => {
      const headers = { ...CSV, Authorization: 'Bearer secret-token', 'X-Request-Id': 'logged' };
      await open('HTTP/2').request(`${UPLOAD}&access_token=secret-token`, { headers, body: 'a,b' });
      await until(async () => (await deployment.proxy.log()).includes('"requestId":"logged"'));
      const lines = (await deployment.proxy.log()).split('\n').filter((line) => line.startsWith('{'));
      const logged = lines.map((line) => JSON.parse(line) as Record<string, unknown>).find(({ requestId }) => requestId === 'logged');
      expect(logged).toMatchObject({ client: '127.0.0.1', request: 'POST /ingestHistoricalLoadData/upload_historical', status: 200 });
      expect(lines.filter((line) => /secret-token|customer_id|load\.csv/.test(line))).toEqual([]);
    });

    it.each([['TLSv1.1', 'refused'], ['TLSv1.2', 'TLSv1.2'], ['TLSv1.3', 'TLSv1.3']] as const)('a client that speaks only %s: %s', async (version, outcome) => {
      const { port, certificate: ca } = deployment.proxy;
      // Of the client, so that only the proxy can refuse TLS 1.1.
      const ciphers = 'DEFAULT@SECLEVEL=0';
      const socket = connect({ host: '127.0.0.1', port, ca, minVersion: version, maxVersion: version, ciphers });
      const met = await once(socket, 'secureConnect').then(() => socket.getProtocol(), (error: unknown) => ((error as NodeJS.ErrnoException).code === 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' ? 'refused' : error));
      socket.destroy();
      expect(met).toBe(outcome);
    });

    it.each([
      ['ECDHE-ECDSA-AES128-SHA256', 'refused'],
      ['ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-AES256-GCM-SHA384'],
    ])('a client that has only these suites of TLS 1.2, %s: %s', async (ciphers, outcome) => {
      const { port, certificate: ca } = deployment.proxy;
      const socket = connect({ host: '127.0.0.1', port, ca, maxVersion: 'TLSv1.2', ciphers });
      const met = await once(socket, 'secureConnect').then(() => socket.getCipher().name, (error: unknown) => (String((error as NodeJS.ErrnoException).code).includes('ALERT_HANDSHAKE_FAILURE') ? 'refused' : error));
      socket.destroy();
      expect(met).toBe(outcome);
    });

    // compose.replicas.yaml runs nginx as localhost.
    it.runIf(kind === NGINX)('demands nothing from browsers as localhost, where other servers have no TLS', async () => {
      const { port, certificate: ca } = deployment.proxy;
      const socket = connect({ host: '127.0.0.1', port, ca });
      const answered = readAnswer(socket);
      socket.write('GET /health/live HTTP/1.1\r\nHost: localhost:8443\r\n\r\n');
      const answer = await answered;
      socket.destroy();
      expect([answer.status, answer.headers['strict-transport-security']]).toEqual([200, undefined]);
    });

    it.runIf(HAS_IPV6)('accepts connections over IPv6', async () => {
      const { port, certificate: ca } = deployment.proxy;
      const socket = connect({ host: '::1', port, ca }).setEncoding('utf8');
      let text = '';
      socket.on('data', (part: string) => (text += part)).write('GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
      await once(socket, 'close');
      expect(text).toMatch(/^HTTP\/1\.1 200 /);
    });

    // A number is the status of a page of HTML that HAProxy's parser has, and which can't be changed.
    it.each<[string, string, object, object | number]>([
      ['a malformed header', 'GET / HTTP/1.1\r\nA B: c', error(400, 'Bad request.'), 400],
      ['an unknown transfer coding', `POST ${UPLOAD} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip`, error(400, 'Bad request.'), 400],
      ['CONNECT', 'CONNECT /uploads HTTP/1.1\r\nHost: x', error(404, 'Not found.'), 400],
      ['TRACE', 'TRACE /uploads HTTP/1.1\r\nHost: x', error(404, 'Not found.'), error(404, 'Not found.')],
      // HAProxy passes it on as HTTP/1.1.
      ['an unknown version', 'GET /uploads HTTP/2.0\r\nHost: x', error(400, 'Bad request.'), error(403, 'Unauthorized.')],
    ])('answers %s', async (_name, head, ofNginx, ofHaproxy) => {
      const { port, certificate: ca } = deployment.proxy;
      const socket = connect({ host: '127.0.0.1', port, ca });
      const answered = readAnswer(socket);
      socket.write(`${head}\r\n\r\n`);
      const answer = await answered;
      socket.destroy();
      const expected = kind === NGINX ? ofNginx : ofHaproxy;
      if (typeof expected === 'number') expect(answer).toMatchObject({ status: expected, body: expect.stringContaining(`<h1>${expected} `) as string });
      else expect(errorOf(answer)).toEqual(expected);
    });
  });

  // Debian's nginx has no health checks.
  if (kind === HAPROXY) it('sends nothing to a replica that is not ready, and goes on when it is', async () => {
    const { proxy, replicas: [healthy, away] } = deployment;
    await rename(away.dataDirectory, `${away.dataDirectory}-away`);
    await proxy.program.line(/replica-2 is DOWN/);
    const before = (await healthy.lines).length;
    expect((await answersOf(deployment, 10)).map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
    expect(await healthy.lines).toHaveLength(before + 10);
    await rename(`${away.dataDirectory}-away`, away.dataDirectory);
    const beforeAway = (await away.lines).length;
    await proxy.program.line(/replica-2 is UP/);
    await answersOf(deployment, 10);
    expect((await away.lines).length).toBeGreaterThan(beforeAway);
  });

  describe('with a limit', () => {
    let limited: Replica;
    let proxy: RunningProxy;
    beforeAll(async () => {
      limited = await Replica.start({ TRUST_PROXY: '1', MAX_UPLOAD_BYTES: String(MIB), RATE_LIMIT_PER_MINUTE: '3' });
      proxy = await startProxy(kind, [limited.port, limited.port]);
    });
    afterAll(() => Promise.all([proxy.stop(), limited.dispose()]));

    it("lets the service refuse an upload over MAX_UPLOAD_BYTES, and passes its answer on", async () => {
      for (const [protocol, address] of [['HTTP/1.1', '127.0.0.5'], ['HTTP/2', '127.0.0.6']] as const) {
        for (const headers of [{ ...CSV, 'Content-Length': 4 * MIB }, CSV]) {
          // After such an answer, nginx may end an HTTP/1.1 connection, although the answer says `keep-alive`.
          const connection = tlsConnection(protocol, proxy, address);
          const answer = await connection.request(UPLOAD, { body: randomBytes(4 * MIB), headers });
          expect(errorOf(answer)).toEqual(error(413, 'Payload too large.'));
          expect(answer.headers).toMatchObject(OF_THE_SERVICE);
          connection.close();
        }
      }
    });

    it("counts requests by the client's address, which X-Forwarded-For of the client doesn't change", async () => {
      const statuses = async (address: string, forged: (request: number) => string): Promise<number[]> => {
        const connection = tlsConnection('HTTP/1.1', proxy, address);
        const found: number[] = [];
        for (let request = 0; request < 4; request++) {
          found.push((await connection.request(UPLOAD, { headers: { 'X-Forwarded-For': forged(request) } })).status);
        }
        connection.close();
        return found;
      };
      expect(await statuses('127.0.0.2', (request) => `192.0.2.${request}`)).toEqual([200, 200, 200, 429]);
      expect(await statuses('127.0.0.3', () => '127.0.0.4')).toEqual([200, 200, 200, 429]);
      expect(await statuses('127.0.0.4', () => '127.0.0.2')).toEqual([200, 200, 200, 429]);
    });
  });

  describe('with short timeouts', () => {
    const TIMEOUT_MS = 3_000;
    let hasty: Deployment;
    /** A replica that waits longer for a client than its proxy. */
    let patient: Replica;
    let proxy: RunningProxy;
    let token: string;
    beforeAll(async () => {
      const timeouts = kind.timeouts('3s', '3s');
      hasty = await deploy(kind, { REQUEST_IDLE_TIMEOUT_MS: String(TIMEOUT_MS - 1_000) }, timeouts);
      patient = await Replica.start({ TRUST_PROXY: '1', REQUEST_IDLE_TIMEOUT_MS: String(2 * TIMEOUT_MS) });
      proxy = await startProxy(kind, [patient.port, patient.port], timeouts);
      token = await patient.token();
    });
    afterAll(() => Promise.all([proxy.stop(), patient.dispose(), hasty.dispose()]));

    describe.each(PROTOCOLS)('over %s', (protocol) => {
      it('lets a client send slowly for longer than each timeout', async () => {
        const chunks = 16;
        const connection = tlsConnection(protocol, hasty.proxy);
        const { body, answer } = connection.begin(UPLOAD, { headers: { ...CSV, 'Content-Length': chunks * 1024 } });
        for (let sent = 0; sent < chunks; sent++) {
          body.write(Buffer.alloc(1024));
          await delay((1.4 * TIMEOUT_MS) / chunks);
        }
        body.end();
        expect((await answer).status).toBe(200);
        connection.close();
      });

      it('lets a client read slowly for longer than each timeout, and writes nothing to its own disk', async () => {
        const size = 32 * MIB;
        const connection = tlsConnection(protocol, proxy);
        const { body, answer } = connection.begin(UPLOAD, { headers: { ...CSV, 'Content-Length': size } });
        await send(body, size / MIB);
        body.end();
        const path = `/uploads/${String((await answer).headers['x-upload-id'])}/content`;
        const digest = createHash('sha256');
        let bytes = 0;
        for await (const chunk of await connection.read(path, { Authorization: `Bearer ${token}` })) {
          digest.update(chunk as Buffer);
          const mebibytes = Math.floor(bytes / MIB);
          bytes += (chunk as Buffer).length;
          if (Math.floor(bytes / MIB) === mebibytes) continue;
          expect(await proxy.openFiles()).toEqual([]);
          await delay((2 * TIMEOUT_MS * MIB) / size);
        }
        expect(digest.digest('base64')).toBe(digestOf(size));
        connection.close();
      });

      it("passes the service's answer on to a client that stops", async () => {
        const connection = tlsConnection(protocol, hasty.proxy);
        const { body, answer } = connection.begin(UPLOAD, { headers: { ...CSV, 'Content-Length': 1024 } });
        body.write('a');
        const answered = await answer;
        expect(errorOf(answered)).toEqual(error(408, 'Request timeout.'));
        expect(answered.headers).toMatchObject(OF_THE_SERVICE);
        connection.close();
      });

      it('answers 504 for a replica that is silent', async () => {
        for (const replica of hasty.replicas) replica.signal('SIGSTOP');
        const connection = tlsConnection(protocol, hasty.proxy);
        const answer = await connection.request(UPLOAD);
        for (const replica of hasty.replicas) replica.signal('SIGCONT');
        expect(errorOf(answer)).toEqual(error(504, 'Gateway timeout.'));
        connection.close();
        await bothServe(hasty);
      });
    });
  });

  describe.each(PROTOCOLS)('when a replica is lost, over %s', (protocol) => {
    let connection: Connection;
    beforeAll(() => { connection = tlsConnection(protocol, deployment.proxy); });
    afterAll(() => { connection.close(); });

    /** Kills the replica that has received a request of over 8,000 bytes, but has read nothing of it. */
    async function lostWith(request: () => Promise<Answer>): Promise<{ answer: Answer; restarted: () => Promise<void> }> {
      for (const replica of deployment.replicas) replica.signal('SIGSTOP');
      const answer = request();
      const victim = await first(deployment, async (replica) => (await replica.unreadBytes()) > 8_000);
      await victim.end('SIGKILL');
      for (const replica of deployment.replicas) if (replica !== victim) replica.signal('SIGCONT');
      return { answer: await answer, restarted: () => victim.restart() };
    }

    it('answers 502 for an upload that it was receiving, and sends it to no other', async () => {
      await connection.request(UPLOAD);
      const before = await deployment.lines();
      const { body, answer } = connection.begin(UPLOAD, { headers: { ...CSV, 'Content-Length': 2 * MIB } });
      body.write(Buffer.alloc(MIB));
      const victim = await first(deployment, async (replica) => (await replica.stagedBytes()) > 0);
      await victim.end('SIGKILL');
      // HAProxy may break off instead. That is safe, because the upload wasn't complete.
      const answered = await answer.then(errorOf, String);
      if (kind === NGINX || typeof answered !== 'string') expect(answered).toEqual(error(502, 'Bad gateway.'));
      body.destroy();
      await victim.restart();
      expect(await deployment.lines()).toEqual(before);
    });

    it('answers 502 for an upload that it had received, and sends it to no other', async () => {
      await bothServe(deployment);
      await connection.request(UPLOAD);
      const before = await deployment.lines();
      const { answer, restarted } = await lostWith(() => connection.request(UPLOAD, { headers: CSV, body: randomBytes(8_000) }));
      expect(errorOf(answer)).toEqual(error(502, 'Bad gateway.'));
      await restarted();
      expect(await deployment.lines()).toEqual(before);
    });

    it(`${kind === NGINX ? 'sends' : 'answers 502 for'} a removal that it had received${kind === NGINX ? ' to the other' : ', and sends it to no other'}`, async () => {
      await bothServe(deployment);
      const { answer, restarted } = await lostWith(() => connection.request('/uploads/0', { method: 'DELETE', headers: { 'X-Filling': 'a'.repeat(8_000) } }));
      expect(errorOf(answer)).toEqual(kind === NGINX ? error(403, 'Unauthorized.') : error(502, 'Bad gateway.'));
      await restarted();
    });
  });

  it('answers every request with 200 while replicas are restarted, and stores no upload twice', () => restartReplicas(deployment, PACE_MS));

  if (kind === HAPROXY) {
    it('does so too with the rarer checks and the longer delay of docs/behind-a-proxy.md', async () => {
      const [, interval = '', delay = ''] = /With `(inter \w+)` in HAProxy and `SHUTDOWN_DELAY_MS=(\d+)`/.exec(await readFile('docs/behind-a-proxy.md', 'utf8')) ?? [];
      const comments = (await readFile(kind.configuration, 'utf8')).replaceAll(/\n +# /g, ' ');
      expect(comments).toContain(`With "${interval}" it is a fifth, but the replicas then need SHUTDOWN_DELAY_MS=${delay}.`);
      const rare = await deploy(kind, { SHUTDOWN_DELAY_MS: delay }, [[/inter 1s/g, interval]]);
      try {
        await restartReplicas(rare, 5 * PACE_MS);
      } finally {
        await rare.dispose();
      }
    });
  }

  it('serves below BASE_PATH at PUBLIC_URL', async () => {
    const port = await freePort();
    const origin = `https://127.0.0.1:${port}`;
    const secret = 'administrator-secret';
    const variables = { BASE_PATH: '/load/v1', PUBLIC_URL: `${origin}/load/v1`, EMBEDDED_ADMIN_SECRET: secret };
    const server = await Replica.start({ TRUST_PROXY: '1', ...variables });
    const proxy = await startProxy(kind, [server.port, server.port], kind.below('/load/v1'), port);
    if (kind === HAPROXY) {
      // A replica comes back only after a health check.
      await server.end('SIGTERM');
      await proxy.program.line(/replica-1 is DOWN/);
      await server.restart();
      await proxy.program.line(/replica-1 is UP/);
    }
    const connection = tlsConnection('HTTP/2', proxy);
    const page = await connection.request('/load/v1/', { method: 'GET', headers: { Accept: 'text/html' } });
    expect([page.status, new URL(String(page.headers.location), `${origin}/load/v1/`).href]).toEqual([302, expect.stringMatching(`^${origin}/load/v1/docs`)]);
    const { body } = await connection.request('/load/v1/idp/token', {
      headers: { Authorization: `Basic ${btoa(`admin:${secret}`)}`, 'Content-Type': 'application/x-www-form-urlencoded' },
      body: 'grant_type=client_credentials',
    });
    const token = (JSON.parse(body) as { access_token: string }).access_token;
    const roles = await connection.request('/load/v1/idpManagementBackend/roles', { method: 'GET', headers: { Authorization: `Bearer ${token}`, Origin: origin } });
    expect(roles).toMatchObject({ status: 200, body: '{"roles":[]}' });
    expect(errorOf(await connection.request('/load/v1/metrics', { method: 'GET' }))).toEqual(error(404, 'Not found.'));
    connection.close();
    await Promise.all([proxy.stop(), server.dispose()]);
  });

  describe('when replicas refuse connections', () => {
    let dying: Deployment;
    beforeEach(async () => { dying = await deploy(kind); });
    afterEach(() => dying.dispose());

    it('sends uploads to the other', async () => {
      await bothServe(dying);
      await dying.replicas[1].end('SIGKILL');
      const before = await dying.replicas[0].lines;
      expect((await answersOf(dying, 20)).map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
      expect(await dying.replicas[0].lines).toHaveLength(before.length + 20);
    });

    it.each(PROTOCOLS)('answers an error of its own over %s when both are lost', async (protocol) => {
      await Promise.all(dying.replicas.map((replica) => replica.end('SIGKILL')));
      const connection = tlsConnection(protocol, dying.proxy);
      const answer = errorOf(await connection.request(UPLOAD));
      connection.close();
      expect([error(502, 'Bad gateway.'), error(503, 'Service unavailable.')]).toContainEqual(answer);
    });
  });
});

describe('the configurations of the proxies', () => {
  const defaults = parseEnvironment({});
  const settings = async (file: string, pattern: RegExp) => [...(await readFile(file, 'utf8')).matchAll(pattern)].map(([, value]) => Number(value));

  it('wait longer for a client than the service does', async () => {
    const found = [
      ...(await settings(NGINX.configuration, /^ +(?:client_body_timeout|send_timeout) (\d+)s;/gm)),
      ...(await settings(HAPROXY.configuration, /^ +timeout client (\d+)s$/gm)),
    ];
    expect(found.map((seconds) => seconds * 1000 > defaults.requestIdleTimeoutMs)).toEqual([true, true, true]);
  });

  it('wait for the service at least three times as long as the service waits for a silent bucket', async () => {
    const { fileStorage } = parseEnvironment({ FILE_STORAGE: 's3', S3_BUCKET: 'load-data' });
    const timeoutMs = 'timeoutMs' in fileStorage ? fileStorage.timeoutMs : Infinity;
    const found = [
      ...(await settings(NGINX.configuration, /^ +(?:proxy_read_timeout|proxy_send_timeout) (\d+)s;/gm)),
      ...(await settings(HAPROXY.configuration, /^ +timeout server (\d+)s$/gm)),
    ];
    expect(found.map((seconds) => seconds * 1000 >= 3 * timeoutMs)).toEqual([true, true, true]);
  });

  it('close an idle connection to the service before the service does', async () => {
    const [seconds = Infinity] = await settings(NGINX.configuration, /^ +keepalive_timeout (\d+)s;/gm);
    const service = await startService();
    const { headers } = await fetch(`http://127.0.0.1:${service.port}/health/live`);
    await service.close();
    expect(seconds).toBeLessThan(Number(headers.get('keep-alive')?.replace('timeout=', '')));
    // A replica of the previous release stays beside the new ones during an update.
    expect(seconds).toBeLessThan(IDLE_SECONDS_OF_1_0_0);
    expect(await readFile(HAPROXY.configuration, 'utf8')).toMatch(/^ +option http-server-close$/m);
  });

  it('allow no TLS before 1.2, also where the system would', async () => {
    expect(await readFile(NGINX.configuration, 'utf8')).toMatch(/^ +ssl_protocols TLSv1\.2 TLSv1\.3;$/m);
    expect(await readFile(HAPROXY.configuration, 'utf8')).toMatch(/^ +ssl-default-bind-options ssl-min-ver TLSv1\.2$/m);
  });

  it("don't let HAProxy run as root", async () => {
    const [, global = ''] = (await readFile(HAPROXY.configuration, 'utf8')).split(/^(?:global|defaults)$/m);
    expect(global.match(/^ +(?:chroot|user|group|uid|gid) .*$/gm)).toEqual(['    chroot /var/lib/haproxy', '    user haproxy', '    group haproxy']);
  });

  it('let a form of the largest size through', async () => {
    const [mebibytes = 0] = await settings(NGINX.configuration, /^ +client_max_body_size (\d+)m;/gm);
    expect(mebibytes * MIB).toBe(defaults.maxUploadBytes + defaults.maxJsonBytes + MIB);
  });
});

async function staged({ replicas }: Deployment): Promise<number> {
  return Math.max(...(await Promise.all(replicas.map((replica) => replica.stagedBytes()))));
}

/** The first replica for which the condition holds. */
async function first({ replicas }: Deployment, condition: (replica: Replica) => Promise<boolean>): Promise<Replica> {
  let found: Replica | undefined;
  await until(async () => {
    for (const replica of replicas) if (await condition(replica)) found = replica;
    return found !== undefined;
  });
  if (!found) throw new Error('There is no such replica.');
  return found;
}

/** Waits until the proxy sends requests to both replicas. */
async function bothServe(deployment: Deployment): Promise<void> {
  const counts = () => Promise.all(deployment.replicas.map(async (replica) => (await replica.lines).length));
  const before = await counts();
  await until(async () => {
    await answersOf(deployment, 2);
    return (await counts()).every((count, replica) => count > (before[replica] ?? 0));
  });
}

/**
 * Restarts one replica after the other while clients upload, each after a pause. Expects every answer to be 200, and every
 * upload to be stored once.
 */
async function restartReplicas(deployment: Deployment, pauseMs: number): Promise<void> {
  let isOver = false;
  const answers: Answer[] = [];
  const clients = Array.from({ length: 4 }, async (_, client) => {
    const connection = tlsConnection(client % 2 === 0 ? 'HTTP/1.1' : 'HTTP/2', deployment.proxy);
    // Less than the 1,000 requests after which nginx ends a connection.
    for (let request = 0; request < 900 && !isOver; request++) {
      await delay(pauseMs);
      answers.push(await connection.request(UPLOAD.replace('acme', 'restarts'), { headers: CSV, body: `${client}-${request}` }));
    }
    connection.close();
  });
  for (const replica of deployment.replicas) {
    await bothServe(deployment);
    expect(await replica.end('SIGTERM')).toEqual({ code: 0, signal: null });
    await replica.restart();
  }
  await bothServe(deployment);
  isOver = true;
  await Promise.all(clients);
  expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  const lines = (await deployment.lines()).filter(({ customer_id }) => customer_id === 'restarts');
  const stored = new Set(lines.map(({ content_sha256 }) => content_sha256));
  expect(stored.size).toBe(lines.length);
  expect(lines).toHaveLength(answers.length);
}

/** The answers to uploads one after the other, each over a new connection. */
async function answersOf({ proxy }: Deployment, count: number): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let sent = 0; sent < count; sent++) {
    const connection = tlsConnection('HTTP/1.1', proxy);
    answers.push(await connection.request(UPLOAD));
    connection.close();
  }
  return answers;
}
