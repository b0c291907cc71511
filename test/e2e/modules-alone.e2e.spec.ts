import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type DynamicModule, Injectable, Module, type Type } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  AuthenticationModule,
  type AuthenticationOptions,
  FileStorage,
  IdentityManagementModule,
  IngestionModule,
  PERMISSIONS,
  type Upload,
  type UploadDraft,
} from '../../src/index.js';
import { InMemoryFileStorage } from '../../src/testing/in-memory.file-storage.js';
import { InMemoryIdentityProvider } from '../../src/testing/in-memory.identity-provider.js';
import { InMemoryUploadEvents } from '../../src/testing/in-memory.upload-events.js';
import { AUDIENCE, jwkOf, now, signToken, TestIssuer } from '../../src/testing/test-issuer.js';
import { sharedRsaKey } from '../support/signing-keys.js';

/** The smallest possible `FileStorage` that a team can write. */
@Injectable()
class TeamStorage extends FileStorage {
  readonly uploads: Upload[] = [];

  override async store(draft: UploadDraft): Promise<Upload> {
    let size = 0;
    for await (const chunk of draft.content?.bytes ?? []) size += chunk.length;
    const upload = await draft.conclude(draft.content && { size, sha256: '00' });
    this.uploads.push(upload);
    return upload;
  }

  override checkHealth(): Promise<void> {
    return Promise.resolve();
  }
}

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface TeamApp {
  readonly app: NestExpressApplication;
  readonly url: string;
}

/** Starts a team's application with these modules, without the service's own set-up of an application (`setUpApp`). */
async function start(imports: (DynamicModule | Type)[]): Promise<TeamApp> {
  @Module({ imports })
  class TeamModule {}
  const testing = await Test.createTestingModule({ imports: [TeamModule] }).compile();
  const app = testing.createNestApplication<NestExpressApplication>();
  app.useLogger(false);
  await app.listen(0, '127.0.0.1');
  const server: Server = app.getHttpServer();
  const { port } = server.address() as AddressInfo;
  closing.push(async () => {
    server.closeAllConnections();
    await app.close();
  });
  return { app, url: `http://127.0.0.1:${port}` };
}

const UPLOAD = '/ingestHistoricalLoadData/upload_historical';
const QUERY = '?customer_id=a&filename=b.csv&manufacturer=c';
const BASE = '/idpManagementBackend';
const JSON_TYPE = { 'Content-Type': 'application/json' };

async function expectAnswer(pending: Promise<Response>, status: number, body: object): Promise<Response> {
  const answer = await pending;
  expect({ status: answer.status, body: await answer.text() }).toEqual({ status, body: JSON.stringify(body) });
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(answer.headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
  return answer;
}

type Row = readonly [what: string, method: string, target: string, init: RequestInit, status: number, body: object];
const SUCCESS = { status: 'success', message: 'Data uploaded successfully.' };
const bytes = (length: number): RequestInit => ({ headers: { 'Content-Type': 'text/csv' }, body: 'x'.repeat(length) });

describe('IngestionModule alone', () => {
  const forms: [string, () => DynamicModule][] = [
    ['forRoot', () => IngestionModule.forRoot({ fileStorage: { useClass: TeamStorage }, maxJsonBytes: 100, maxUploadBytes: 100 })],
    [
      'forRootAsync',
      () =>
        IngestionModule.forRootAsync({
          imports: [TeamConfigModule],
          inject: [TeamConfig],
          fileStorage: { inject: [TeamConfig], useFactory: ({ storage }: TeamConfig) => storage },
          useFactory: ({ limit }: TeamConfig) => ({ maxJsonBytes: limit, maxUploadBytes: limit }),
        }),
    ],
  ];

  describe.each(forms)('by %s', (_form, module) => {
    it.each<Row>([
      ['no body', 'POST', UPLOAD + QUERY, {}, 200, SUCCESS],
      ['JSON', 'POST', UPLOAD + QUERY, { headers: JSON_TYPE, body: '{"additional_data":"x"}' }, 200, SUCCESS],
      ['a file', 'POST', UPLOAD + QUERY, bytes(100), 200, SUCCESS],
      ['nowcast', 'POST', `/ingestNowcastLoadData/upload_nowcast${QUERY}`, bytes(1), 200, SUCCESS],
      ['no query', 'POST', UPLOAD, {}, 400, { error: 'Invalid or missing query parameter.' }],
      ['a repeated parameter', 'POST', `${UPLOAD}${QUERY}&filename=x`, {}, 400, { error: 'Invalid or missing query parameter.' }],
      ['malformed JSON', 'POST', UPLOAD + QUERY, { headers: JSON_TYPE, body: '{' }, 400, { error: 'Invalid request body.' }],
      ['too long a file', 'POST', UPLOAD + QUERY, bytes(101), 413, { error: 'Payload too large.' }],
      ['too long JSON', 'POST', UPLOAD + QUERY, { headers: JSON_TYPE, body: `{}${' '.repeat(99)}` }, 413, { error: 'Payload too large.' }],
      ['an unsupported type', 'POST', UPLOAD + QUERY, { body: new URLSearchParams({ a: 'b' }) }, 415, { error: 'Unsupported media type.' }],
    ])('answers like the service: %s', async (_what, method, target, init, status, body) => {
      const { url } = await start([module()]);
      await expectAnswer(fetch(url + target, { method, ...init }), status, body);
    });
  });

  it("stores uploads in the team's storage", async () => {
    const { app, url } = await start([IngestionModule.forRoot({ fileStorage: { useClass: TeamStorage } })]);
    const answer = await fetch(url + UPLOAD + QUERY, { method: 'POST', ...bytes(7) });
    const { uploads } = app.get<TeamStorage>(FileStorage, { strict: false });
    expect(uploads).toMatchObject([{ uploadId: answer.headers.get('x-upload-id'), customerId: 'a', content: { size: 7, type: 'text/csv' } }]);
  });

  it('answers a failure of the storage like the service', async () => {
    const storage = new InMemoryFileStorage();
    storage.failWith(new Error('defect'));
    const { url } = await start([IngestionModule.forRoot({ fileStorage: { useValue: storage } })]);
    await expectAnswer(fetch(url + UPLOAD + QUERY, { method: 'POST' }), 500, { error: 'Internal server error.' });
  });

  it("keeps the client's request id", async () => {
    const { url } = await start([IngestionModule.forRoot({ fileStorage: { useClass: TeamStorage } })]);
    const answer = await fetch(url + UPLOAD, { method: 'POST', headers: { 'X-Request-Id': 'team-1' } });
    expect(answer.headers.get('x-request-id')).toBe('team-1');
  });

  it('requires a token when authentication is configured', async () => {
    const authentication = AuthenticationModule.forRoot(authenticationOptions(issuer));
    const { url } = await start([IngestionModule.forRoot({ fileStorage: { useClass: TeamStorage }, authentication })]);
    const upload = (headers: Record<string, string>) => fetch(url + UPLOAD + QUERY, { method: 'POST', headers });
    await expectAnswer(upload({}), 403, { error: 'Unauthorized.' });
    await expectAnswer(upload(bearer(issuer, { customer_id: 'b' })), 403, { error: 'Unauthorized.' });
    await expectAnswer(upload(bearer(issuer, { customer_id: 'a' })), 200, SUCCESS);
  });

  it.each([
    ['forRoot', () => IngestionModule.forRoot({})],
    ['forRootAsync', () => IngestionModule.forRootAsync({ useFactory: () => ({}) })],
  ])('reports with %s which adapter is missing', (_form, module) => {
    expect(module).toThrow(/IngestionModule needs .*fileStorage/);
  });
});

class TeamConfig {
  readonly limit = 100;
  readonly storage = new InMemoryFileStorage();
  readonly provider = new InMemoryIdentityProvider();
  readonly providerTimeoutMs = 20;
}

@Module({ providers: [TeamConfig], exports: [TeamConfig] })
class TeamConfigModule {}

const key = sharedRsaKey(0);
const issuer = new TestIssuer();
const otherKey = sharedRsaKey(1);
const otherIssuer = new TestIssuer();
beforeAll(async () => {
  issuer.keys = [jwkOf(key, { kid: 'k' })];
  otherIssuer.keys = [jwkOf(otherKey, { kid: 'k' })];
  await issuer.start();
  await otherIssuer.start();
});
afterAll(async () => {
  await issuer.stop();
  await otherIssuer.stop();
});

const authenticationOptions = ({ url, keySetUrl }: TestIssuer): AuthenticationOptions => ({
  issuer: url,
  audience: AUDIENCE,
  keySet: { url: keySetUrl },
  cooldownMs: 1,
});

function bearer({ url }: TestIssuer, claims: object = {}): { Authorization: string } {
  const all = { iss: url, aud: AUDIENCE, sub: 'someone', exp: now() + 60, permissions: PERMISSIONS, ...claims };
  return { Authorization: `Bearer ${signToken(url === issuer.url ? key : otherKey, { alg: 'RS256', kid: 'k' }, all)}` };
}

describe('IdentityManagementModule alone', () => {
  const forms: [string, () => DynamicModule][] = [
    [
      'forRoot',
      () =>
        IdentityManagementModule.forRoot({
          identityProvider: { useClass: InMemoryIdentityProvider },
          authentication: AuthenticationModule.forRoot(authenticationOptions(issuer)),
          maxJsonBytes: 100,
        }),
    ],
    [
      'forRootAsync',
      () =>
        IdentityManagementModule.forRootAsync({
          imports: [TeamConfigModule],
          inject: [TeamConfig],
          identityProvider: { inject: [TeamConfig], useFactory: ({ provider }: TeamConfig) => provider },
          authentication: AuthenticationModule.forRootAsync({
            imports: [TeamConfigModule],
            inject: [TeamConfig],
            useFactory: (_: TeamConfig) => authenticationOptions(issuer),
          }),
          useFactory: ({ limit: maxJsonBytes }: TeamConfig) => ({ maxJsonBytes }),
        }),
    ],
  ];
  const json = (body: unknown): RequestInit => ({ headers: JSON_TYPE, body: JSON.stringify(body) });
  const ROLE = 'Invalid role_name or permissions.';

  describe.each(forms)('by %s', (_form, module) => {
    it.each<Row>([
      ['roles', 'GET', `${BASE}/roles`, {}, 200, { roles: [] }],
      ['users', 'GET', `${BASE}/users`, {}, 200, { users: [] }],
      ['an invalid body', 'POST', `${BASE}/create-role`, json({}), 400, { error: ROLE }],
      ['malformed JSON', 'POST', `${BASE}/create-role`, { headers: JSON_TYPE, body: '{' }, 400, { error: ROLE }],
      ['an unknown user', 'POST', `${BASE}/assign-role`, json({ user_id: 'a', role_id: 'b' }), 400, { error: 'Invalid user_id or role_id.' }],
      ['no name', 'POST', `${BASE}/update-user`, json({ user_id: 'a' }), 400, { error: 'Invalid user_id or new_name.' }],
      ['an unknown role', 'POST', `${BASE}/create-user`, json({ email: 'a@b.example', roles: ['c'] }), 400, { error: 'Invalid email or roles.' }],
      ['too long a body', 'POST', `${BASE}/create-role`, json({ x: 'x'.repeat(100) }), 413, { error: 'Payload too large.' }],
      ['an unsupported type', 'POST', `${BASE}/create-role`, bytes(1), 415, { error: 'Unsupported media type.' }],
    ])('answers like the service: %s', async (_what, method, target, init, status, body) => {
      const { url } = await start([module()]);
      const headers = { ...(init.headers as Record<string, string> | undefined), ...bearer(issuer) };
      await expectAnswer(fetch(url + target, { ...init, method, headers }), status, body);
    });

    it('creates, and lists what it created', async () => {
      const { url } = await start([module()]);
      const headers = { ...JSON_TYPE, ...bearer(issuer) };
      const fields = { role_name: 'reader', permissions: ['read:roles'] };
      const created = await fetch(`${url}${BASE}/create-role`, { method: 'POST', headers, body: JSON.stringify(fields) });
      expect(created.status).toBe(201);
      const { role_id } = (await created.json()) as { role_id: string };
      await expectAnswer(fetch(`${url}${BASE}/roles`, { headers }), 200, { roles: [{ role_id, name: 'reader' }] });
    });

    it.each<[string, () => Record<string, string>]>([
      ['no token', () => ({})],
      ['a token without the permission', () => bearer(issuer, { permissions: ['read:users'] })],
      ['a token of another issuer', () => bearer(otherIssuer)],
      ["a token with our issuer and another issuer's key", () => bearer(otherIssuer, { iss: issuer.url })],
      ["a token with another issuer and our issuer's key", () => bearer(issuer, { iss: otherIssuer.url })],
      ['a token for another audience', () => bearer(issuer, { aud: 'else' })],
      ['an expired token', () => bearer(issuer, { exp: now() - 60 })],
    ])('refuses %s', async (_what, headers) => {
      const { url } = await start([module()]);
      await expectAnswer(fetch(`${url}${BASE}/roles`, { headers: headers() }), 403, { error: 'Unauthorized.' });
    });
  });

  it('accepts a token in the form of Keycloak', async () => {
    const { url } = await start([forms[0]?.[1]() ?? IdentityManagementModule]);
    const claims = { permissions: undefined, resource_access: { [AUDIENCE]: { roles: ['read:roles'] } } };
    await expectAnswer(fetch(`${url}${BASE}/roles`, { headers: bearer(issuer, claims) }), 200, { roles: [] });
    await expectAnswer(fetch(`${url}${BASE}/users`, { headers: bearer(issuer, claims) }), 403, { error: 'Unauthorized.' });
  });

  it('waits for the provider no longer than configured', async () => {
    const { app, url } = await start([
      IdentityManagementModule.forRootAsync({
        imports: [TeamConfigModule],
        inject: [TeamConfig],
        identityProvider: { inject: [TeamConfig], useFactory: ({ provider }: TeamConfig) => provider },
        authentication: AuthenticationModule.forRoot(authenticationOptions(issuer)),
        useFactory: ({ providerTimeoutMs }: TeamConfig) => ({ providerTimeoutMs }),
      }),
    ]);
    app.get(TeamConfig, { strict: false }).provider.hang();
    const answer = await expectAnswer(fetch(`${url}${BASE}/roles`, { headers: bearer(issuer) }), 503, { error: 'Identity provider unavailable.' });
    expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  });

  it.each([
    ['down', async (server: TestIssuer) => server.stop()],
    ['broken', (server: TestIssuer) => (server.answer = (_request, response) => response.writeHead(500).end())],
    ['malformed', (server: TestIssuer) => (server.answer = (_request, response) => response.end('<html>'))],
  ])('answers 503, not 403, while the key set is %s, and recovers', async (_how, fail) => {
    const shaky = await new TestIssuer().start();
    closing.push(() => shaky.stop());
    shaky.keys = [jwkOf(otherKey, { kid: 'k' })];
    const { url } = await start([
      IdentityManagementModule.forRoot({
        identityProvider: { useClass: InMemoryIdentityProvider },
        authentication: AuthenticationModule.forRoot(authenticationOptions(shaky)),
      }),
    ]);
    await fail(shaky);
    const ask = (headers: Record<string, string> = bearer(shaky)) => fetch(`${url}${BASE}/roles`, { headers });
    const answer = await expectAnswer(ask(), 503, { error: 'Identity provider unavailable.' });
    expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    await expectAnswer(ask({}), 403, { error: 'Unauthorized.' });

    shaky.answer = undefined;
    await shaky.stop();
    await shaky.start();
    await expect.poll(async () => (await ask()).status, { timeout: 10_000 }).toBe(200);
  });

  it.each([
    ['the provider', { authentication: AuthenticationModule.forRoot({ issuer: 'x', audience: 'y', keySet: { url: 'http://127.0.0.1/' } }) }],
    ['the authentication', { identityProvider: { useClass: InMemoryIdentityProvider } }],
    ['both', {}],
  ])('reports at start that %s is missing', (_what, adapters) => {
    const clear = /IdentityManagementModule needs .*identityProvider.*authentication/;
    expect(() => IdentityManagementModule.forRoot(adapters)).toThrow(clear);
    expect(() => IdentityManagementModule.forRootAsync({ ...adapters, useFactory: () => ({}) })).toThrow(clear);
  });
});

describe('several applications in one process', () => {
  const identity = (server: TestIssuer): DynamicModule =>
    IdentityManagementModule.forRoot({
      identityProvider: { useClass: InMemoryIdentityProvider },
      authentication: AuthenticationModule.forRoot(authenticationOptions(server)),
    });

  it('each accept only their own issuer', async () => {
    const [one, two] = [await start([identity(issuer)]), await start([identity(otherIssuer)])];
    const statuses = [];
    for (const { url } of [one, two]) {
      for (const server of [issuer, otherIssuer]) statuses.push((await fetch(`${url}${BASE}/roles`, { headers: bearer(server) })).status);
    }
    expect(statuses).toEqual([200, 403, 403, 200]);
  });

  it('outlive each other', async () => {
    const [one, two] = [await start([identity(issuer)]), await start([identity(otherIssuer)])];
    const server: Server = one.app.getHttpServer();
    const closed = once(server, 'close');
    server.closeAllConnections();
    await one.app.close();
    await closed;
    await expectAnswer(fetch(`${two.url}${BASE}/roles`, { headers: bearer(otherIssuer) }), 200, { roles: [] });
  });

  it('each deliver events to their own receiver, with their own address', async () => {
    const receivers = [new InMemoryUploadEvents(), new InMemoryUploadEvents()];
    const modules = receivers.map((events, index) =>
      IngestionModule.forRoot({ fileStorage: { useClass: InMemoryFileStorage }, events: { useValue: events }, ...(index === 0 && { baseUrl: 'https://load.example' }) }),
    );
    for (const module of modules) {
      const { url } = await start([module]);
      await expectAnswer(fetch(url + UPLOAD + QUERY, { method: 'POST' }), 200, SUCCESS);
    }
    for (const events of receivers) await events.atLeast(1);
    expect(receivers.map(({ delivered }) => delivered.map(({ source }) => source))).toEqual([['https://load.example'], ['load-data-service']]);
  });

  it('can contain both features in one', async () => {
    const { url } = await start([IngestionModule.forRoot({ fileStorage: { useClass: TeamStorage } }), identity(issuer)]);
    await expectAnswer(fetch(url + UPLOAD + QUERY, { method: 'POST' }), 200, SUCCESS);
    await expectAnswer(fetch(`${url}${BASE}/roles`), 403, { error: 'Unauthorized.' });
  });
});
