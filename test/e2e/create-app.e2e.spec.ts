import { mkdtemp, readdir, rm } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { Body, ConflictException, Controller, Get, Injectable, Logger, Module, type OnApplicationShutdown, type OnModuleInit, Post, type Type, UseGuards } from '@nestjs/common';
import type { ExpressAdapter, NestExpressApplication } from '@nestjs/platform-express';
import type { Express, NextFunction, Request as ExpressRequest, RequestHandler, Response as ExpressResponse } from 'express';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type AppOptions, createApp, EnvironmentError } from '../../src/app/index.js';
import { timeOfUuid } from '../../src/common/uuid.js';
import { TokenIssuer } from '../../src/identity-management/adapters/out/embedded/token-issuer.js';
import { AuthenticationModule, FileStorage, IdentityProvider, LocalDiskFileStorage, PermissionGuard, RequirePermission } from '../../src/index.js';
import { InMemoryFileStorage, InMemoryIdentityProvider } from '../../src/testing/index.js';
import { AUDIENCE, jwkOf, now, signToken, TestIssuer } from '../../src/testing/test-issuer.js';
import { applying } from '../support/applying.js';
import { sharedRsaKey } from '../support/signing-keys.js';

const SECRET = 'secret-of-the-embedded-administrator';
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=a&filename=b.csv&manufacturer=c';

let data: string;
beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'load-data-'));
});
afterAll(() => rm(data, { recursive: true }));

const apps: NestExpressApplication[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

/** Creates the app, sets it up, and lets it listen on a free port. */
async function start({ environment, ...parts }: AppOptions = {}, setUp?: (app: NestExpressApplication) => void): Promise<{ app: NestExpressApplication; url: string }> {
  const app = await createApp({
    ...parts,
    environment: { DATA_DIR: data, LOG_LEVEL: 'silent', EMBEDDED_ADMIN_SECRET: SECRET, ...environment },
  });
  apps.push(app);
  setUp?.(app);
  await app.listen(0, '127.0.0.1');
  return { app, url: await app.getUrl() };
}

const hooksOf = (app: NestExpressApplication): ExpressAdapter => app.getHttpAdapter() as unknown as ExpressAdapter;

/** Calls a middleware in place of the server's listeners, and then these, as code does that wraps each request. */
function listening(app: NestExpressApplication, middleware: RequestHandler): void {
  const server = app.getHttpServer();
  const listeners = server.listeners('request') as RequestListener[];
  server.removeAllListeners('request').on('request', (request: ExpressRequest, response: ExpressResponse) => {
    request.originalUrl = request.url;
    void middleware(request, response, () => { for (const listener of listeners) listener(request, response); });
  });
}

const upload = async (url: string): Promise<number> => (await fetch(url + UPLOAD, { method: 'POST', headers: { 'Content-Type': 'text/csv' }, body: 'x' })).status;

async function adminToken(url: string): Promise<string> {
  const authorization = `Basic ${Buffer.from(`admin:${SECRET}`).toString('base64')}`;
  const answer = await fetch(`${url}/idp/token`, {
    method: 'POST',
    headers: { Authorization: authorization },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  });
  return ((await answer.json()) as { access_token: string }).access_token;
}

const users = async (url: string, token: string): Promise<{ status: number; body: unknown }> => {
  const answer = await fetch(`${url}/idpManagementBackend/users`, { headers: { Authorization: `Bearer ${token}` } });
  return { status: answer.status, body: await answer.json() };
};

/** A store that records which of its lifecycle hooks Nest calls. */
class TeamStorage extends InMemoryFileStorage implements OnModuleInit, OnApplicationShutdown {
  readonly calls: string[] = [];

  onModuleInit(): void {
    this.calls.push('init');
  }

  onApplicationShutdown(): void {
    this.calls.push('shutdown');
  }
}

@Injectable()
class TeamConfig {
  readonly storage = new TeamStorage();
}

@Controller('reports')
class ReportsController {
  @Get()
  list(): object {
    return { reports: [] };
  }

  @Post()
  create(@Body() body: unknown): object {
    return { body };
  }

  @Get('conflict')
  conflict(): never {
    throw new ConflictException('taken');
  }

  @Get('secret')
  @UseGuards(PermissionGuard)
  @RequirePermission('read:reports')
  secret(): object {
    return { secret: true };
  }

  @Get('defect')
  defect(): never {
    throw new Error('a defect');
  }
}

@Module({ providers: [TeamConfig], exports: [TeamConfig] })
class TeamConfigModule {}

describe('createApp', () => {
  it('creates the whole service from the given environment', async () => {
    const { url } = await start({ environment: { BASE_PATH: '/load' } });
    expect(await upload(`${url}/load`)).toBe(200);
    expect(await users(`${url}/load`, await adminToken(`${url}/load`))).toEqual({ status: 200, body: { users: [] } });
    expect((await fetch(`${url}/load/health/ready`)).status).toBe(200);
    expect((await fetch(`${url}/load/docs-json`)).status).toBe(200);
    expect(await readdir(data)).toEqual(expect.arrayContaining(['files', 'identity', 'uploads']));
  });

  it('knows its address even if its server listens without Nest, as with supertest', async () => {
    const app = await createApp({ environment: { DATA_DIR: data, LOG_LEVEL: 'silent', EMBEDDED_ADMIN_SECRET: SECRET } });
    apps.push(app);
    await app.init();
    const server = app.getHttpServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const url = `http://127.0.0.1:${port}`;
    expect((await users(url, await adminToken(url))).status).toBe(200);
  });

  it.each<[string, AppOptions]>([
    ['', {}],
    [' beside a module of a team', { imports: [TeamConfigModule] }],
  ])("calls an operation without Express's router%s, which finds all other routes", async (_beside, parts) => {
    const { app, url } = await start({ fileStorage: new InMemoryFileStorage(), ...parts });
    const express: Express = app.getHttpAdapter().getInstance();
    const asked = vi.spyOn(express.router as unknown as { handle: () => void }, 'handle');
    expect(await upload(url)).toBe(200);
    expect(asked).not.toHaveBeenCalled();
    expect((await fetch(`${url}/docs`)).status).toBe(200);
    expect(asked).toHaveBeenCalled();
  });

  it.each<[string, (count: RequestHandler) => { module?: Type; setUp?: (app: NestExpressApplication) => void }]>([
    ['for all paths', (count) => ({ setUp: (app) => app.use(count) })],
    ['for a path above it', (count) => ({ setUp: (app) => app.use('/ingestHistoricalLoadData', count) })],
    ['that Nest applies', (count) => ({ module: applying((consumer) => consumer.apply(count).forRoutes('*path')) })],
    ['that listens to the server', (count) => ({ setUp: (app) => { listening(app, count); } })],
    ['as a hook before requests', (count) => ({ setUp: (app) => { hooksOf(app).setOnRequestHook((request, response, next) => { void count(request, response, next as NextFunction); }); } })],
    ['as a hook after answers', (count) => ({ setUp: (app) => { hooksOf(app).setOnResponseHook((request, response) => { void count(request, response, () => undefined); }); } })],
  ])('calls the middleware of a team %s for an operation', async (_where, middlewareOf) => {
    const seen: string[] = [];
    const { module, setUp } = middlewareOf((request, _response, next) => {
      seen.push(request.originalUrl);
      next();
    });
    const { url } = await start({ fileStorage: new InMemoryFileStorage(), ...(module && { imports: [module] }) }, setUp);
    expect(await upload(url)).toBe(200);
    // The hook after answers runs when the client may already have the answer.
    await vi.waitFor(() => { expect(seen).toEqual([UPLOAD]); });
  });

  it('releases DATA_DIR when it is closed', async () => {
    // With a store in memory, only the embedded identity provider locks DATA_DIR.
    const fileStorage = new InMemoryFileStorage();
    const { app } = await start({ fileStorage });
    await expect(start({ fileStorage })).rejects.toThrow(/in use/);
    apps.splice(0);
    await app.close();
    await start({ fileStorage });
  });

  it('refuses an environment with wrong variables, and names each', async () => {
    const created = createApp({ environment: { PORT: 'x', LOG_LEVEL: 'loud' } });
    await expect(created).rejects.toThrow(EnvironmentError);
    await expect(created).rejects.toThrow(/^PORT: .*\nLOG_LEVEL: /);
  });
});

describe('createApp with another store', () => {
  const ways: [string, (storage: TeamStorage) => AppOptions][] = [
    ['an instance', (storage) => ({ fileStorage: storage })],
    ['a value', (storage) => ({ fileStorage: { useValue: storage } })],
    ['a factory', (storage) => ({ fileStorage: { useFactory: () => storage } })],
  ];

  it.each(ways)('given as %s stores there, counts the uploads, and calls its hooks once', async (_how, options) => {
    const storage = new TeamStorage();
    // The variables of the S3 store are missing. They aren't required, because `createApp` gets another store.
    const { app, url } = await start({ ...options(storage), environment: { FILE_STORAGE: 's3', AZURE_STORAGE_CONNECTION_STRING_FILE: 'missing' } });
    expect(await upload(url)).toBe(200);
    expect(storage.uploads).toMatchObject([{ customerId: 'a', filename: 'b.csv' }]);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain('load_data_uploads_total{kind="historical"} 1');
    apps.splice(0);
    await app.close();
    expect(storage.calls).toEqual(['init', 'shutdown']);
  });

  it('given as a class lets Nest create it', async () => {
    const { app, url } = await start({ fileStorage: { useClass: TeamStorage } });
    expect(await upload(url)).toBe(200);
    expect(app.get(FileStorage, { strict: false })).toBeInstanceOf(FileStorage);
  });

  it("injects into it what the team's own modules export", async () => {
    const { app, url } = await start({
      imports: [TeamConfigModule],
      fileStorage: { inject: [TeamConfig], useFactory: ({ storage }: TeamConfig) => storage },
    });
    expect(await upload(url)).toBe(200);
    expect(app.get(TeamConfig, { strict: false }).storage.uploads).toHaveLength(1);
  });

  it('takes the times of uploads from its clock, if it has one', async () => {
    const time = Date.parse('2026-03-10T12:00:00Z');
    const storage = Object.assign(new TeamStorage(), { now: () => time });
    const { url } = await start({ fileStorage: storage });
    expect(await upload(url)).toBe(200);
    expect(storage.uploads.map(({ uploadId, receivedAt, content }) => [timeOfUuid(uploadId), receivedAt.getTime(), content?.path.split('/')[3]])).toEqual([[time, time, 'date=2026-03-10']]);
  });

  it('reports its failure, and that it is not ready', async () => {
    const storage = new TeamStorage();
    const { url } = await start({ fileStorage: storage });
    storage.failWith(new Error('disk full'));
    expect(await upload(url)).toBe(500);
    storage.recover();
    expect(await upload(url)).toBe(200);
  });
});

describe('createApp that fails', () => {
  const broken = new Error('the provider refuses');
  /** An identity provider whose creation fails only after everything else that opens without waiting has opened. */
  const failing = { useFactory: () => nextIteration().then(() => Promise.reject<IdentityProvider>(broken)) };

  it('closes a store that was open already', async () => {
    const storage = new TeamStorage();
    await expect(start({ fileStorage: { useFactory: () => storage }, identityProvider: failing })).rejects.toBe(broken);
    expect(storage.calls).toEqual(['shutdown']);
  });

  it('closes a store that was still opening, as soon as it has opened', async () => {
    let open = (_storage: TeamStorage): void => undefined;
    const opening = new Promise<TeamStorage>((resolve) => (open = resolve));
    await expect(start({ fileStorage: { useFactory: () => opening }, identityProvider: failing })).rejects.toBe(broken);
    await new Promise<void>((resolve) => {
      open(Object.assign(new TeamStorage(), { onApplicationShutdown: resolve }));
    });
  });

  it('releases DATA_DIR', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'load-data-'));
    let isOpen = (): void => undefined;
    const opened = new Promise<void>((resolve) => (isOpen = resolve));
    const fileStorage = { useFactory: () => LocalDiskFileStorage.open({ directory, logger: new Logger() }).finally(isOpen) };
    const identityProvider = { useFactory: () => opened.then(failing.useFactory) };
    try {
      await expect(start({ fileStorage, identityProvider })).rejects.toBe(broken);
      await (await LocalDiskFileStorage.open({ directory, logger: new Logger() })).close();
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});

describe('createApp with another identity provider', () => {
  it('keeps users there, and accepts the tokens of the environment', async () => {
    const provider = new InMemoryIdentityProvider();
    const { url } = await start({ identityProvider: provider });
    const token = await adminToken(url);
    const answer = await fetch(`${url}/idpManagementBackend/create-user`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: '{"email":"ada@grid.example","roles":[]}',
    });
    expect(answer.status).toBe(201);
    const pages = [];
    for await (const page of provider.listUsers({ signal: AbortSignal.timeout(1000) })) pages.push(...page);
    expect(pages).toMatchObject([{ email: 'ada@grid.example' }]);
  });

  it('accepts the tokens of another issuer alone, and opens no embedded provider', async () => {
    const key = sharedRsaKey();
    const issuer = new TestIssuer();
    issuer.keys = [jwkOf(key, { kid: 'k' })];
    await issuer.start();
    const fresh = await mkdtemp(join(tmpdir(), 'load-data-'));
    try {
      const { url } = await start({
        environment: { DATA_DIR: fresh, IDENTITY_PROVIDER: 'keycloak' },
        fileStorage: new InMemoryFileStorage(),
        identityProvider: { useClass: InMemoryIdentityProvider },
        authentication: AuthenticationModule.forRoot({ issuer: issuer.url, audience: AUDIENCE, keySet: { url: issuer.keySetUrl } }),
      });
      const token = signToken(key, { alg: 'RS256', kid: 'k' }, { iss: issuer.url, aud: AUDIENCE, sub: 'ada', exp: now() + 60, permissions: ['read:users'] });
      expect(await users(url, token)).toEqual({ status: 200, body: { users: [] } });
      expect(await users(url, 'x')).toEqual({ status: 403, body: { error: 'Unauthorized.' } });
      expect((await fetch(`${url}/idp/jwks`)).status).toBe(404);
      expect(await readdir(fresh)).toEqual([]);
    } finally {
      await issuer.stop();
      await rm(fresh, { recursive: true });
    }
  });
});

describe("createApp with a team's modules", () => {
  @Module({ controllers: [ReportsController] })
  class ReportsModule {}

  const json = (body: string): RequestInit => ({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
  const answerOf = async (pending: Promise<Response>) => {
    const answer = await pending;
    return { status: answer.status, body: await answer.text() };
  };

  it('serves their controllers beside its own', async () => {
    const { url } = await start({ imports: [ReportsModule] });
    expect(await answerOf(fetch(`${url}/reports`))).toEqual({ status: 200, body: '{"reports":[]}' });
    expect(await answerOf(fetch(`${url}/reports`, json('{"a":1}')))).toEqual({ status: 201, body: '{"body":{"a":1}}' });
    expect(await answerOf(fetch(`${url}/reports/conflict`))).toEqual({ status: 409, body: '{"message":"taken","error":"Conflict","statusCode":409}' });
    expect(await answerOf(fetch(`${url}/reports/defect`))).toEqual({ status: 500, body: '{"error":"Internal server error."}' });
    expect(await upload(url)).toBe(200);
    expect(await answerOf(fetch(url + UPLOAD, json('{"additional_data":"x"}')))).toMatchObject({ status: 200 });
    expect(await answerOf(fetch(url + UPLOAD, json('{')))).toEqual({ status: 400, body: '{"error":"Invalid request body."}' });
    expect(await answerOf(fetch(`${url}/nothing`))).toEqual({ status: 404, body: '{"error":"Not found."}' });
  });

  it('lets them require a permission of their own, by the tokens of the service', async () => {
    const { url } = await start({ imports: [ReportsModule] });
    const admin = { headers: { Authorization: `Bearer ${await adminToken(url)}`, 'Content-Type': 'application/json' } };
    const post = async (operation: string, body: object) => (await (await fetch(`${url}/idpManagementBackend/${operation}`, { ...admin, method: 'POST', body: JSON.stringify(body) })).json()) as Record<string, string>;
    const secret = (token: string) => answerOf(fetch(`${url}/reports/secret`, { headers: { Authorization: `Bearer ${token}` } }));
    const { role_id } = await post('create-role', { role_name: 'reporter', permissions: ['read:reports'] });
    const { user_id } = await post('create-user', { email: 'reporter@grid.example', roles: [role_id] });
    const token = await apps.at(-1)?.get(TokenIssuer, { strict: false }).userToken(user_id ?? '');
    expect(await secret(token ?? '')).toEqual({ status: 200, body: '{"secret":true}' });
    for (const other of ['x', await adminToken(url)]) expect(await secret(other)).toEqual({ status: 403, body: '{"error":"Unauthorized."}' });
  });

  it('answers to an unknown path before it looks at the body', async () => {
    const { url } = await start({ imports: [ReportsModule] });
    expect(await answerOf(fetch(`${url}/nothing`, json('{')))).toEqual({ status: 404, body: '{"error":"Not found."}' });
  });
});

describe('the identity port', () => {
  it('is a token in the container', async () => {
    const provider = new InMemoryIdentityProvider();
    const { app } = await start({ identityProvider: provider });
    expect(app.get(IdentityProvider, { strict: false })).toBeInstanceOf(IdentityProvider);
  });
});
