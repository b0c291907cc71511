import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { IncomingMessage, request as httpRequest } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { inspect } from 'node:util';
import type { Request } from 'express';
import type { CanActivate, INestApplication, LoggerService, NestApplicationOptions } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { Test } from '@nestjs/testing';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { startClock, stopClock } from '../../../../../../test/support/virtual-time.js';
import { PERMISSIONS } from '../../../../../authentication/permissions.js';
import { ServiceError } from '../../../../../common/service-error.js';
import { ServiceExceptionFilter } from '../../../../../http/service-exception.filter.js';
import { EmbeddedIdentityProviderModule } from '../embedded-identity-provider.module.js';
import { TokenIssuer } from '../token-issuer.js';
import { EmbeddedIssuerController } from './embedded-issuer.controller.js';

interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
}

const WITHOUT_BODY_PARSER: Pick<NestApplicationOptions, 'bodyParser'> = { bodyParser: false };
const FORM = 'application/x-www-form-urlencoded';
const GRANT = 'grant_type=client_credentials';

let directory: string;
let app: INestApplication | undefined;
let origin: string;
let issuer: () => string;
let logged: string;

/** Stops the running service, if any, and starts a new one on the same data directory. */
async function start({ adminSecret, guard }: { adminSecret?: string; guard?: CanActivate } = {}): Promise<void> {
  await app?.close();
  const note = (...messages: unknown[]): void => {
    logged += inspect(messages, { depth: 10 });
  };
  const logger: LoggerService = { log: note, error: note, warn: note, debug: note, verbose: note, fatal: note };
  const module = EmbeddedIdentityProviderModule.forRoot({
    directory,
    adminSecret,
    audience: 'load-data-api',
    issuer: () => issuer(),
    publicUrl: () => origin,
  });
  const compiled = await Test.createTestingModule({ imports: [module] }).setLogger(logger).compile();
  app = compiled.createNestApplication<NestExpressApplication>(WITHOUT_BODY_PARSER);
  app.useGlobalFilters(new ServiceExceptionFilter());
  if (guard) app.useGlobalGuards(guard);
  await app.listen(0, '127.0.0.1');
  origin = `http://127.0.0.1:${(app.getHttpServer() as { address(): AddressInfo }).address().port}`;
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'issuer-'));
  await start();
});
beforeEach(() => {
  issuer = () => `${origin}/idp`;
  logged = '';
});
afterAll(async () => {
  await app?.close();
  rmSync(directory, { recursive: true });
});

const adminSecret = (): string => readFileSync(join(directory, 'identity', 'admin-secret'), 'utf8').trim();
const basic = (id: string, secret: string): string => `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
const admin = (): string => basic('admin', adminSecret());

interface Posting {
  readonly body?: string | Buffer;
  readonly authorization?: string | string[];
  readonly headers?: Record<string, string>;
}

async function postToken({ body = GRANT, authorization = admin(), headers = {} }: Posting = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(`${origin}/idp/token`, {
      method: 'POST',
      headers: {
        'Content-Type': FORM,
        ...(authorization.length > 0 && { Authorization: authorization }),
        ...headers,
      },
    });
    outgoing.on('error', reject).on('response', (response) => {
      text(response).then((content) => {
        const body: unknown = content === '' ? undefined : JSON.parse(content);
        resolve({ status: response.statusCode, headers: response.headers, body });
      }, reject);
    });
    outgoing.end(body);
  });
}

describe('the metadata', () => {
  it('describes the only grant, with the endpoints under the public URL', async () => {
    const response = await fetch(`${origin}/idp/.well-known/openid-configuration`);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toContain('application/json');
    expect(await response.json()).toEqual({
      issuer: `${origin}/idp`,
      token_endpoint: `${origin}/idp/token`,
      jwks_uri: `${origin}/idp/jwks`,
      grant_types_supported: ['client_credentials'],
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
      response_types_supported: [],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    });
  });

  it('contains an issuer with another name, and no host from the request', async () => {
    issuer = () => 'https://issuer.example';
    const response = await fetch(`${origin}/idp/.well-known/openid-configuration`, {
      headers: { 'X-Forwarded-Host': 'evil.example' },
    });
    expect(await response.json()).toMatchObject({ issuer: 'https://issuer.example', jwks_uri: `${origin}/idp/jwks` });
  });
});

describe('the key set', () => {
  it('contains only public members', async () => {
    const { keys } = (await (await fetch(`${origin}/idp/jwks`)).json()) as { keys: object[] };
    expect(keys.map((key) => Object.keys(key).sort())).toEqual([['alg', 'e', 'kid', 'kty', 'n', 'use']]);
  });
});

describe('a valid token request', () => {
  it('gets the administrator a token that the key set verifies and that must not be cached', async () => {
    const { status, headers, body } = await postToken();
    expect(status).toBe(200);
    expect(headers).toMatchObject({ 'cache-control': 'no-store', pragma: 'no-cache' });
    expect(headers['content-type']).toContain('application/json');
    expect(body).toEqual({ access_token: (body as { access_token: string }).access_token, token_type: 'Bearer', expires_in: 3600 });
    const { payload } = await jwtVerify(
      (body as { access_token: string }).access_token,
      createRemoteJWKSet(new URL(`${origin}/idp/jwks`)),
      { issuer: `${origin}/idp`, audience: 'load-data-api', typ: 'at+jwt' },
    );
    expect(payload).toMatchObject({ sub: 'admin', client_id: 'admin', permissions: [...PERMISSIONS], customer_id: '*' });
  });

  it.each<[string, () => Posting]>([
    ['with scope, resource and audience, which are ignored', () => ({ body: `${GRANT}&scope=a+b&resource=urn%3Ax&audience=y&other=z` })],
    ['with a charset', () => ({ headers: { 'Content-Type': `${FORM}; charset=UTF-8` } })],
    ['with the content type in upper case', () => ({ headers: { 'Content-Type': FORM.toUpperCase() } })],
    ['with the scheme in mixed case', () => ({ authorization: admin().replace('Basic', 'bAsIc') })],
    ['with an escaped id', () => ({ authorization: basic('%61dmin', adminSecret()) })],
    ['with an empty client_secret, which is ignored', () => ({ body: `${GRANT}&client_secret=` })],
    ['with escapes in the body', () => ({ body: 'grant%5Ftype=client%5fcredentials&&' })],
    ['with the Content-Encoding identity', () => ({ headers: { 'Content-Encoding': 'Identity' } })],
    ['of exactly 4096 bytes', () => ({ body: `${GRANT}&x=`.padEnd(4096, 'x') })],
  ])('%s', async (_, posting) => {
    expect((await postToken(posting())).status).toBe(200);
  });
});

describe('an invalid client', () => {
  it.each<[string, () => Posting]>([
    ['no Authorization', () => ({ authorization: '' })],
    ['a wrong secret', () => ({ authorization: basic('admin', 'wrong') })],
    ['a truncated secret', () => ({ authorization: basic('admin', adminSecret().slice(0, -1)) })],
    ['a secret with an extra character', () => ({ authorization: basic('admin', `${adminSecret()}x`) })],
    ['an empty secret', () => ({ authorization: basic('admin', '') })],
    ['an unknown client', () => ({ authorization: basic('eve', adminSecret()) })],
    ['an empty client', () => ({ authorization: basic('', adminSecret()) })],
    ['a client in another letter case', () => ({ authorization: basic('Admin', adminSecret()) })],
    ['an empty client and secret', () => ({ authorization: basic('', '') })],
    ['no colon', () => ({ authorization: `Basic ${Buffer.from(adminSecret()).toString('base64')}` })],
    ['a secret with a malformed escape', () => ({ authorization: basic('admin', `${adminSecret()}%zz`) })],
    ['a secret with a lone percent sign', () => ({ authorization: basic('admin', '%') })],
    ['an id with an escape that is not UTF-8', () => ({ authorization: basic('%ff', adminSecret()) })],
    ['only the scheme', () => ({ authorization: 'Basic' })],
    ['credentials that are not base64', () => ({ authorization: `Basic admin:${adminSecret()}` })],
    ['two credentials', () => ({ authorization: `${admin()} ${admin().slice(6)}` })],
    ['another scheme', () => ({ authorization: `Bearer ${adminSecret()}` })],
    ['the secret in the body', () => ({ authorization: '', body: `${GRANT}&client_id=admin&client_secret=${adminSecret()}` })],
    ['an assertion in the body', () => ({ authorization: '', body: `${GRANT}&client_assertion=a.b.c` })],
    ['a wrong secret and another grant', () => ({ authorization: basic('admin', 'wrong'), body: 'grant_type=password' })],
    ['a wrong secret and no grant', () => ({ authorization: basic('admin', 'wrong'), body: '' })],
  ])('with %s gets 401 and the challenge', async (_, posting) => {
    const answer = await postToken(posting());
    expectError(answer, 401, 'invalid_client');
    expect(answer.headers['www-authenticate']).toBe('Basic realm="load-data"');
  });

  it("gets no challenge in the script of a page, where the browser would open its own login", async () => {
    const answer = await postToken({ authorization: basic('admin', 'x'), headers: { 'X-Requested-With': 'XMLHttpRequest' } });
    expectError(answer, 401, 'invalid_client');
    expect(answer.headers).not.toHaveProperty('www-authenticate');
  });

  describe('that guesses secrets', () => {
    const guess = (headers: Record<string, string>) => postToken({ authorization: basic('admin', 'a guess'), headers });
    const statusesOf = async (answers: Promise<Answer>[]) => (await Promise.all(answers)).map(({ status }) => status).sort();
    const guesses = (count: number, headers: Record<string, string>) => statusesOf(Array.from({ length: count }, () => guess(headers)));
    const MOST = Array.from({ length: 50 }, () => 401);
    const from = (address: string) => ({ 'X-Forwarded-For': address });
    const statusFrom = async (address: string) => (await postToken({ headers: from(address) })).status;
    /** How many attempts of one address may wait: one every 100 ms, for at most 2.5 s. */
    const PLACES = 25;
    /**
     * Sends wrong secrets from an address until `places` of them are waiting and one more was refused. Returns all of
     * these attempts. Those that wait are answered by `letAllCheck`.
     */
    const fillTurns = async (address: string, places = PLACES): Promise<Promise<Answer>[]> => {
      const attempts = Array.from({ length: places + 1 }, () => guess(from(address)));
      // The clock doesn't move, so only a refusal is answered.
      expect((await Promise.race(attempts)).status).toBe(429);
      return attempts;
    };
    const letAllCheck = async (attempts: Promise<Answer>[]): Promise<void> => {
      vi.advanceTimersByTime(2_500);
      expect(await statusesOf(attempts)).toEqual([...Array.from({ length: attempts.length - 1 }, () => 401), 429]);
    };
    beforeEach(async () => {
      await start();
      (app as NestExpressApplication).set('trust proxy', 1);
      stopClock('performance', 'setTimeout');
    });
    afterEach(() => {
      // Ends the attempts that a failed test left waiting.
      vi.advanceTimersByTime(60_000);
      startClock();
    });

    it('waits in a queue after 50 wrong secrets in a minute, and is refused while the queue is full', async () => {
      expect(await guesses(50, from('192.0.2.1'))).toEqual(MOST);
      let isAnswered = false;
      const right = postToken({ headers: from('192.0.2.1') }).finally(() => { isAnswered = true; });
      const tooEarly = right.then(({ status }) => { throw new Error(`answered too early: ${status}`); });
      const others = await Promise.race([fillTurns('192.0.2.1', PLACES - 1), tooEarly]);
      expect(isAnswered).toBe(false);
      await letAllCheck(others);
      expect((await right).status).toBe(200);
    });

    it('gets a Retry-After', async () => {
      expect(await guesses(50, from('192.0.2.1'))).toEqual(MOST);
      const others = await fillTurns('192.0.2.1');
      const refused = await postToken({ headers: from('192.0.2.1') });
      expect(refused).toMatchObject({ status: 429, body: { error: 'Too many requests.' }, headers: { 'retry-after': '3' } });
      await letAllCheck(others);
      vi.advanceTimersByTime(60_000);
      expect(await guesses(50, from('192.0.2.1'))).toEqual(MOST);
    });

    it('slows down no other address, and none that presents the right secret', async () => {
      expect(await guesses(50, from('192.0.2.1'))).toEqual(MOST);
      const others = await fillTurns('192.0.2.1');
      expect(await statusFrom('192.0.2.2')).toBe(200);
      for (let index = 0; index < 60; index++) expect(await statusFrom('192.0.2.3')).toBe(200);
      expect(await guesses(1, from('192.0.2.3'))).toEqual([401]);
      await letAllCheck(others);
    });

    it('counts by its IPv6 network, and whatever port a proxy reports', async () => {
      expect(await guesses(50, from('2001:db8:1::1'))).toEqual(MOST);
      const others = await fillTurns('2001:db8:1::1');
      for (const address of ['2001:db8:1::2', '2001:DB8:0001:0:ffff::', '[2001:db8:1::3]:50000']) expect(await statusFrom(address)).toBe(429);
      expect(await statusFrom('2001:db8:1:1::1')).toBe(200);
      await letAllCheck(others);
      expect(await guesses(50, from('192.0.2.4:1'))).toEqual(MOST);
      const othersToo = await fillTurns('192.0.2.4:1');
      for (const address of ['192.0.2.4', '192.0.2.4:2', '::ffff:192.0.2.4']) expect(await statusFrom(address)).toBe(429);
      await letAllCheck(othersToo);
    });

    it('neither resets its count with a malformed request nor increases it', async () => {
      for (let index = 0; index < 60; index++) await postToken({ body: 'x=%', authorization: basic('admin', 'a guess'), headers: from('192.0.2.1') });
      expect(await guesses(50, from('192.0.2.1'))).toEqual(MOST);
    });
  });

  it('gets no token for a secret in the query', async () => {
    const query = `?${GRANT}&client_id=admin&client_secret=${adminSecret()}`;
    const response = await fetch(`${origin}/idp/token${query}`, { method: 'POST', headers: { 'Content-Type': FORM } });
    expect(response.status).toBe(401);
  });
});

describe('an invalid request', () => {
  it.each<[string, number, string, () => Posting]>([
    ['another grant', 400, 'unsupported_grant_type', () => ({ body: 'grant_type=password&username=a&password=b' })],
    ['authorization_code', 400, 'unsupported_grant_type', () => ({ body: 'grant_type=authorization_code&code=x' })],
    ['the grant in mixed case', 400, 'unsupported_grant_type', () => ({ body: 'grant_type=Client_Credentials' })],
    ['no grant', 400, 'invalid_request', () => ({ body: 'scope=x' })],
    ['an empty grant', 400, 'invalid_request', () => ({ body: 'grant_type=' })],
    ['an empty body', 400, 'invalid_request', () => ({ body: '' })],
    ['the grant twice', 400, 'invalid_request', () => ({ body: `${GRANT}&${GRANT}` })],
    ['the grant twice, once escaped', 400, 'invalid_request', () => ({ body: `${GRANT}&grant%5Ftype=client_credentials` })],
    ['the scope twice', 400, 'invalid_request', () => ({ body: `${GRANT}&scope=a&scope=` })],
    ['a secret also in the body', 400, 'invalid_request', () => ({ body: `${GRANT}&client_secret=${adminSecret()}` })],
    ['a wrong secret also in the body', 400, 'invalid_request', () => ({ body: `${GRANT}&client_secret=x` })],
    ['an assertion also in the body', 400, 'invalid_request', () => ({ body: `${GRANT}&client_assertion=a.b.c` })],
    ['two secrets in the body', 400, 'invalid_request', () => ({ authorization: '', body: `${GRANT}&client_secret=x&client_assertion=y` })],
    ['two Authorization headers', 400, 'invalid_request', () => ({ authorization: [admin(), admin()] })],
    ['a second, wrong Authorization header', 400, 'invalid_request', () => ({ authorization: [admin(), basic('admin', 'x')] })],
    ['a malformed escape', 400, 'invalid_request', () => ({ body: `${GRANT}&x=%zz` })],
    ['an escape that is not UTF-8', 400, 'invalid_request', () => ({ body: `${GRANT}&x=%ff` })],
    ['JSON', 400, 'invalid_request', () => ({ body: '{"grant_type":"client_credentials"}', headers: { 'Content-Type': 'application/json' } })],
    ['a form labelled as multipart', 400, 'invalid_request', () => ({ headers: { 'Content-Type': 'multipart/form-data; boundary=x' } })],
    ['an empty content type', 400, 'invalid_request', () => ({ headers: { 'Content-Type': '' } })],
    ['a Content-Encoding', 415, 'invalid_request', () => ({ headers: { 'Content-Encoding': 'gzip' } })],
    ['an unknown Content-Encoding', 415, 'invalid_request', () => ({ headers: { 'Content-Encoding': 'identity, x' } })],
    ['4097 bytes, declared', 413, 'invalid_request', () => ({ body: `${GRANT}&x=`.padEnd(4097, 'x') })],
    ['4097 bytes, undeclared', 413, 'invalid_request', () => ({ body: `${GRANT}&x=`.padEnd(4097, 'x'), headers: { 'Transfer-Encoding': 'chunked' } })],
    ['8 MiB, undeclared', 413, 'invalid_request', () => ({ body: 'x'.repeat(8 << 20), headers: { 'Transfer-Encoding': 'chunked' } })],
  ])('with %s gets %i %s', async (_, status, code, posting) => {
    const answer = await postToken(posting());
    expectError(answer, status, code);
    expect(answer.headers).not.toHaveProperty('www-authenticate');
  });

  it.each(['GET', 'PUT', 'DELETE'])('by %s gets 404', async (method) => {
    const response = await fetch(`${origin}/idp/token`, { method, headers: { Authorization: admin() } });
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({ error: 'Not found.' });
  });

  it('that declares too long a body is refused before the body is sent', async () => {
    const outgoing = httpRequest(`${origin}/idp/token`, {
      method: 'POST',
      headers: { 'Content-Type': FORM, 'Content-Length': '4097', Authorization: admin() },
    });
    const response = once(outgoing, 'response');
    outgoing.flushHeaders();
    const [{ statusCode }] = (await response) as [IncomingMessage];
    outgoing.destroy();
    expect(statusCode).toBe(413);
  });

  it('that is aborted is not a failure of the service', async () => {
    const broken = Object.assign(new IncomingMessage(new Socket()), { headers: { 'content-type': FORM } }).destroy();
    const answer = app?.get(EmbeddedIssuerController).token(broken as unknown as Request);
    await expect(answer).rejects.toMatchObject({ kind: 'client-aborted' });
  });

  it('leaves the service working', async () => {
    await postToken({ body: 'x'.repeat(1 << 20) });
    expect((await postToken()).status).toBe(200);
  });
});

describe('a failure of the service', () => {
  it('is a server_error, logged with its cause', async () => {
    issuer = () => {
      throw new Error('the issuer is not known yet');
    };
    expectError(await postToken(), 500, 'server_error');
    expect(logged).toContain('the issuer is not known yet');
    expect(logged).not.toContain(adminSecret());
    expect(logged).not.toContain(admin().slice(6));
  });

  it("passes the exception of a guard on to the application's filter", async () => {
    const guard: CanActivate = {
      canActivate: () => {
        throw new ServiceError('too-many-requests', 'slow down', { retryAfterSeconds: 7 });
      },
    };
    await start({ guard });
    const answer = await postToken();
    await start();
    expect(answer).toMatchObject({ status: 429, body: { error: 'Too many requests.' }, headers: { 'retry-after': '7' } });
  });

  it('never shows a secret in the log', async () => {
    const secret = adminSecret();
    const credentials = admin().slice(6);
    const token = ((await postToken()).body as { access_token: string }).access_token;
    await postToken({ body: `${GRANT}&client_secret=${secret}` });
    await postToken({ authorization: basic('admin', `${secret}%zz`) });
    await postToken({ body: `${GRANT}&x=%zz${secret}` });
    await postToken({ authorization: [admin(), admin()] });
    await start();
    const [jwk] = JSON.parse(readFileSync(join(directory, 'identity', 'signing-keys.json'), 'utf8')) as { d: string }[];
    expect(logged).toContain('EmbeddedIssuerController');
    for (const hidden of [secret, credentials, token, jwk?.d]) expect(logged).not.toContain(hidden);
  });
});

describe('a restart', () => {
  it('keeps the keys and the secret', async () => {
    const before = await app?.get(TokenIssuer).publicKeySet();
    const secret = adminSecret();
    const { access_token: token } = (await postToken()).body as { access_token: string };
    const issuedBy = `${origin}/idp`;
    await start();
    expect(await app?.get(TokenIssuer).publicKeySet()).toEqual(before);
    expect((await postToken({ authorization: basic('admin', secret) })).status).toBe(200);
    const keySet = createRemoteJWKSet(new URL(`${origin}/idp/jwks`));
    await expect(jwtVerify(token, keySet, { issuer: issuedBy })).resolves.toBeDefined();
  });

  it('with EMBEDDED_ADMIN_SECRET accepts only that secret, form-encoded, and without it the old one again', async () => {
    const kept = adminSecret();
    await start({ adminSecret: 'my:own+secret%sign' });
    expectError(await postToken({ authorization: basic('admin', kept) }), 401, 'invalid_client');
    expectError(await postToken({ authorization: basic('admin', 'my:own+secret%sign') }), 401, 'invalid_client');
    expect((await postToken({ authorization: basic('admin', encodeURIComponent('my:own+secret%sign')) })).status).toBe(200);
    expect((await postToken({ authorization: basic('admin', 'my:own%2Bsecret%25sign') })).status).toBe(200);
    await start();
    expect((await postToken({ authorization: basic('admin', kept) })).status).toBe(200);
  });

  it('with two secrets accepts each of them, and not both in one', async () => {
    await start({ adminSecret: 'the-new-secret-1 the-old-secret-1' });
    for (const secret of ['the-new-secret-1', 'the-old-secret-1']) expect((await postToken({ authorization: basic('admin', secret) })).status).toBe(200);
    for (const secret of ['the-new-secret-1+the-old-secret-1', 'the-new-secret-1%20the-old-secret-1', '']) {
      expectError(await postToken({ authorization: basic('admin', secret) }), 401, 'invalid_client');
    }
  });
});

it('the endpoints are in no OpenAPI document', () => {
  if (!app) throw new Error('not started');
  expect(SwaggerModule.createDocument(app, new DocumentBuilder().build()).paths).toEqual({});
});

function expectError(answer: Answer, status: number, code: string): void {
  expect(answer.body).toEqual({ error: code, error_description: expect.stringMatching(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/) as string });
  expect(answer.status).toBe(status);
  expect(answer.headers).toMatchObject({ 'cache-control': 'no-store', pragma: 'no-cache' });
  expect(answer.headers['content-type']).toContain('application/json');
}
