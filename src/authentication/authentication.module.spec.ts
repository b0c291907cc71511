import type { IncomingMessage, ServerResponse } from 'node:http';
import { Catch, Controller, Get, Module, Req, UseGuards } from '@nestjs/common';
import type { ArgumentsHost, DynamicModule, ExceptionFilter, INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sharedRsaKey } from '../../test/support/signing-keys.js';
import { ServiceError } from '../common/service-error.js';
import { accessTokenOf, AuthenticationModule, PermissionGuard, PERMISSIONS, RequirePermission } from './index.js';
import { AUDIENCE, jwkOf, now, signToken, TestIssuer } from '../testing/test-issuer.js';

@Controller()
@UseGuards(PermissionGuard)
class OperationsController {
  @Get('users')
  @RequirePermission('read:users')
  users(@Req() request: IncomingMessage) {
    return accessTokenOf(request)?.subject;
  }

  @Get('reports')
  @RequirePermission('read:reports')
  reports() {
    return 'reports';
  }

  @Get('unnamed')
  unnamed() {
    return 'open';
  }
}

@Controller('roles')
@UseGuards(PermissionGuard)
@RequirePermission('read:roles')
class RolesController {
  @Get()
  list() {
    return 'roles';
  }

  @Get('new')
  @RequirePermission('create:roles')
  create() {
    return 'role';
  }
}

@Controller('open')
class OpenController {
  @Get()
  open(@Req() request: IncomingMessage) {
    return accessTokenOf(request) === undefined ? 'nobody known' : 'known';
  }
}

@Module({ controllers: [OperationsController, RolesController, OpenController] })
class FeatureModule {
  static with(authentication: DynamicModule): DynamicModule {
    return { module: FeatureModule, imports: [authentication] };
  }
}

@Catch(ServiceError)
class KindFilter implements ExceptionFilter<ServiceError> {
  catch(error: ServiceError, host: ArgumentsHost) {
    host.switchToHttp().getResponse<ServerResponse>().writeHead(418, { Reason: error.message }).end(error.kind);
  }
}

const key = sharedRsaKey();
const apps: INestApplication[] = [];
const north = new TestIssuer();
const south = new TestIssuer();

beforeAll(async () => {
  for (const issuer of [north, south]) {
    issuer.keys = [jwkOf(key, { kid: 'k' })];
    await issuer.start();
  }
});
afterEach(() => Promise.all(apps.splice(0).map((app) => app.close())));
afterAll(() => Promise.all([north.stop(), south.stop()]));

const options = (issuer: TestIssuer) => ({ issuer: issuer.url, audience: AUDIENCE, keySet: { url: issuer.keySetUrl } });

async function serve(authentication: DynamicModule): Promise<string> {
  const testing = await Test.createTestingModule({ imports: [FeatureModule.with(authentication)] }).compile();
  const app = testing.createNestApplication();
  apps.push(app);
  await app.useGlobalFilters(new KindFilter()).listen(0, '127.0.0.1');
  return app.getUrl();
}

const tokenFrom = (issuer: string, permissions: readonly string[]) =>
  signToken(key, { alg: 'RS256', kid: 'k' }, { iss: issuer, aud: AUDIENCE, sub: 'somebody', exp: now() + 60, permissions });
const get = async (url: string, token?: string) =>
  (await fetch(url, token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } })).text();

describe('the guard', () => {
  it('admits a caller with the permission, and passes on the identity', async () => {
    const url = await serve(AuthenticationModule.forRoot(options(north)));
    expect(await get(`${url}/users`, tokenFrom(north.url, ['read:users']))).toBe('somebody');
    expect(await get(`${url}/users`, tokenFrom(north.url, ['read:roles', '*', 'read:*']))).toBe('unauthorized');
    expect(await get(`${url}/users`)).toBe('unauthorized');
    expect(await get(`${url}/open`, tokenFrom(north.url, ['read:users']))).toBe('nobody known');
  });

  it("admits a caller with a permission of a team's own", async () => {
    const url = await serve(AuthenticationModule.forRoot(options(north)));
    expect(await get(`${url}/reports`, tokenFrom(north.url, ['read:reports']))).toBe('reports');
    expect(await get(`${url}/reports`, tokenFrom(north.url, PERMISSIONS))).toBe('unauthorized');
  });

  it('refuses every caller of an operation that declares no permission', async () => {
    const url = await serve(AuthenticationModule.forRoot(options(north)));
    const Authorization = `Bearer ${tokenFrom(north.url, ['read:users', 'undefined'])}`;
    const answer = await fetch(`${url}/unnamed`, { headers: { Authorization } });
    expect(await answer.text()).toBe('unauthorized');
    expect(answer.headers.get('Reason')).toBe('The operation has no @RequirePermission.');
  });

  it("prefers the handler's permission to the controller's", async () => {
    const url = await serve(AuthenticationModule.forRoot(options(north)));
    const reader = tokenFrom(north.url, ['read:roles']);
    expect(await get(`${url}/roles`, reader)).toBe('roles');
    expect(await get(`${url}/roles/new`, reader)).toBe('unauthorized');
    expect(await get(`${url}/roles/new`, tokenFrom(north.url, ['create:roles']))).toBe('role');
  });
});

describe('the module', () => {
  it('serves two issuers in two applications of one process', async () => {
    const inNorth = await serve(AuthenticationModule.forRoot(options(north)));
    const inSouth = await serve(AuthenticationModule.forRoot(options(south)));
    const [ofNorth, ofSouth] = [tokenFrom(north.url, ['read:users']), tokenFrom(south.url, ['read:users'])];
    const visits = [[inNorth, ofNorth], [inSouth, ofSouth], [inNorth, ofSouth], [inSouth, ofNorth]] as const;
    expect(await Promise.all(visits.map(([url, token]) => get(`${url}/users`, token)))).toEqual([
      'somebody', 'somebody', 'unauthorized', 'unauthorized',
    ]);
  });

  it('accepts an issuer in the same process, whose name is known only once it listens', async () => {
    let url = '';
    const useFactory = () => ({
      issuer: () => `${url}/idp`,
      audience: AUDIENCE,
      keySet: { load: () => Promise.resolve({ keys: [jwkOf(key, { kid: 'k' })] }) },
    });
    url = await serve(AuthenticationModule.forRootAsync({ useFactory }));
    expect(await get(`${url}/users`, tokenFrom(`${url}/idp`, ['read:users']))).toBe('somebody');
    expect(await get(`${url}/users`, tokenFrom('/idp', ['read:users']))).toBe('unauthorized');
  });

  it('reports that the provider is unavailable when its keys are', async () => {
    const keySet = { load: () => Promise.reject(new Error('gone')) };
    const url = await serve(AuthenticationModule.forRoot({ ...options(north), keySet }));
    expect(await get(`${url}/users`, tokenFrom(north.url, ['read:users']))).toBe('provider-unavailable');
  });
});
