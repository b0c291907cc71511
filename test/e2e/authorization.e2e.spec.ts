import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PERMISSIONS } from '../../src/authentication/permissions.js';
import { EmbeddedIdentityProvider } from '../../src/identity-management/adapters/out/embedded/embedded.identity-provider.adapter.js';
import { TokenIssuer } from '../../src/identity-management/adapters/out/embedded/token-issuer.js';
import { exchange } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

const BASE = '/idpManagementBackend';
const UPLOADS = { historical: '/ingestHistoricalLoadData/upload_historical', nowcast: '/ingestNowcastLoadData/upload_nowcast' };
const QUERY = '?customer_id=acme&filename=load.csv&manufacturer=meters';
const NOT_THERE = `role_${'0'.repeat(32)}`;

/**
 * The service's operations: method, path, required permission, a body that does no harm if it is accepted, and the
 * status that a caller with the permission gets for it.
 */
const OPERATIONS = [
  ['POST', `${BASE}/assign-role`, 'assign:roles', { user_id: 'x', role_id: NOT_THERE }, 400],
  ['POST', `${BASE}/create-role`, 'create:roles', { role_name: 'taken', permissions: ['a:b'] }, 400],
  ['POST', `${BASE}/create-user`, 'create:users', { email: 'no e-mail', roles: [] }, 400],
  ['GET', `${BASE}/roles`, 'read:roles', undefined, 200],
  ['POST', `${BASE}/update-user`, 'update:users', { user_id: 'x', new_name: 'y' }, 400],
  ['GET', `${BASE}/users`, 'read:users', undefined, 200],
  ['POST', UPLOADS.historical + QUERY, 'upload:historical', {}, 200],
  ['POST', UPLOADS.nowcast + QUERY, 'upload:nowcast', {}, 200],
] as const;

let service: RunningService;
let provider: EmbeddedIdentityProvider;
let tokens: TokenIssuer;
const options = { signal: new AbortController().signal };

beforeAll(async () => {
  service = await startService({ INGESTION_AUTH: 'required', REQUEST_IDLE_TIMEOUT_MS: '2000' });
  provider = service.app.get(EmbeddedIdentityProvider, { strict: false });
  tokens = service.app.get(TokenIssuer, { strict: false });
  await provider.createRole({ name: 'taken', permissions: ['a:b'] }, options);
});
afterAll(() => service.close());

let count = 0;
/** Creates a user who has one new role for each of these permissions. Resolves to the user's id. */
async function userWith(permissions: readonly string[]): Promise<string> {
  const role = (permission: string) => provider.createRole({ name: `role ${++count}`, permissions: [permission] }, options);
  const roleIds = await Promise.all(permissions.map(role));
  return provider.createUser({ email: `u${++count}@grid.example`, name: 'User', roleIds }, options);
}

const tokenWith = async (permissions: readonly string[], customers: string[] = ['acme']): Promise<string> =>
  tokens.userToken(await userWith(permissions), customers);

async function send(method: string, target: string, authorization: string | undefined, body?: string): Promise<Response> {
  const headers = new Headers(authorization === undefined ? {} : { Authorization: authorization });
  if (body !== undefined) headers.set('Content-Type', 'application/json');
  return fetch(service.url + target, { method, headers, ...(body === undefined ? {} : { body }) });
}

async function expectRefused(answer: Response): Promise<void> {
  expect({ status: answer.status, body: await answer.text() }).toEqual({ status: 403, body: '{"error":"Unauthorized."}' });
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(answer.headers.get('x-request-id')).not.toBeNull();
  expect(answer.headers.get('www-authenticate')).toBeNull();
}

/** The head of a request, with these header lines. */
const headOf = (method: string, target: string, ...headers: string[]): string =>
  [`${method} ${target} HTTP/1.1`, 'Host: x', 'Content-Type: application/json', ...headers, '', ''].join('\r\n');

describe.each(OPERATIONS)('%s %s', (method, target, permission, fields, status) => {
  const body = fields && JSON.stringify(fields);
  const ask = (authorization?: string): Promise<Response> => send(method, target, authorization, body);

  it(`serves a caller with only ${permission}, and lets no browser keep what was fetched`, async () => {
    const answer = await ask(`Bearer ${await tokenWith([permission])}`);
    expect([answer.status, answer.headers.get('cache-control')]).toEqual([status, method === 'GET' ? 'no-store' : null]);
  });

  it('refuses a caller with every other permission', async () => {
    await expectRefused(await ask(`Bearer ${await tokenWith(PERMISSIONS.filter((other) => other !== permission))}`));
  });

  it('refuses a caller without a token', async () => {
    await expectRefused(await ask());
  });

  it('refuses before it reads a body', async () => {
    const answer = await exchange(service.port, headOf(method, target, 'Content-Length: 100'));
    expect(answer).toMatchObject({ status: 403, body: '{"error":"Unauthorized."}' });
  });
});

/** One operation of `PermissionGuard`, and one of the uploads' guard. The other operations have these guards too. */
const ONE_OF_EACH_GUARD = OPERATIONS.filter(([, , permission]) => permission === 'create:roles' || permission === 'upload:historical');

describe.each(ONE_OF_EACH_GUARD)('the guard of %s %s', (method, target, permission, fields, status) => {
  const body = fields && JSON.stringify(fields);
  const ask = (authorization?: string): Promise<Response> => send(method, target, authorization, body);
  const head = (...headers: string[]): string => headOf(method, target, ...headers);

  it("serves the administrator's token", async () => {
    expect((await ask(`Bearer ${await service.adminToken()}`)).status).toBe(status);
  });

  it('refuses a caller without permissions', async () => {
    await expectRefused(await ask(`Bearer ${await tokenWith([])}`));
  });

  const [action = '', scope = ''] = permission.split(':');
  it.each(['*:*', `${action}:*`, `*:${scope}`, permission.toUpperCase(), `${permission}:x`, `x${permission}`, `${scope}:${action}`, `${permission}.*`])(
    'treats %s as another permission',
    async (other) => {
      await expectRefused(await ask(`Bearer ${await tokenWith([other])}`));
    },
  );

  it.each<[string, (token: string) => string | undefined]>([
    ['no header', () => undefined],
    ['an empty header', () => ''],
    ['only the token', (token) => token],
    ['only the scheme', () => 'Bearer'],
    ['only the scheme and a blank', () => 'Bearer '],
    ['another scheme', (token) => `Basic ${token}`],
    ['a scheme with the same beginning', (token) => `Bearers ${token}`],
    ['another scheme before it', (token) => `Basic Bearer ${token}`],
    ['a missing blank', (token) => `Bearer${token}`],
    ['a colon after the scheme', (token) => `Bearer: ${token}`],
    ['an equals sign after the scheme', (token) => `Bearer=${token}`],
    ['a token in quotes', (token) => `Bearer "${token}"`],
    ['two tokens', (token) => `Bearer ${token} ${token}`],
    ['two tokens in a list', (token) => `Bearer ${token}, Bearer ${token}`],
    ['a trailing comma', (token) => `Bearer ${token},`],
    ['a trailing parameter', (token) => `Bearer ${token};x=1`],
    ['no token', () => 'Bearer x'],
    ['only two dots', () => 'Bearer ..'],
    ['half a token', (token) => `Bearer ${token.slice(0, token.length / 2)}`],
    ['no signature', (token) => `Bearer ${token.slice(0, token.lastIndexOf('.') + 1)}`],
    ['a changed signature', (token) => `Bearer ${flip(token, token.lastIndexOf('.') + 9)}`],
    ['changed claims', (token) => `Bearer ${flip(token, token.indexOf('.') + 9)}`],
    ['no algorithm', (token) => `Bearer ${Buffer.from('{"alg":"none"}').toString('base64url')}.${token.split('.')[1] ?? ''}.`],
    ['padding after the signature', (token) => `Bearer ${token}==`],
    ['padding after the claims', (token) => `Bearer ${token.replace(/\.(?=[^.]*$)/, '=.')}`],
    ['a fourth part', (token) => `Bearer ${token}.AAAA`],
    ['base64 instead of base64url', (token) => `Bearer ${token.slice(0, -2)}+/`],
    ['a much too long token', (token) => `Bearer ${token}${'x'.repeat(8192)}`],
  ])('refuses %s', async (_what, authorization) => {
    await expectRefused(await ask(authorization(await service.adminToken())));
  });

  it.each(['Bearer ', 'bearer ', 'BEARER ', 'bEaReR ', 'Bearer    '])('accepts "%s" and a token', async (scheme) => {
    expect((await ask(scheme + (await service.adminToken()))).status).toBe(status);
  });

  it('accepts only one of the sixteen spellings of a signature that decode to the same bytes', async () => {
    const token = await service.adminToken();
    const bytesOf = (text: string) => Buffer.from(text.slice(text.lastIndexOf('.') + 1), 'base64url');
    const last = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const spellings = Array.from(last, (end) => token.slice(0, -1) + end).filter((text) => bytesOf(text).equals(bytesOf(token)));
    expect(spellings).toHaveLength(16);
    const statuses = await Promise.all(spellings.map(async (spelling) => (await ask(`Bearer ${spelling}`)).status));
    expect(statuses.map((each, index) => [spellings[index] === token, each])).toEqual(spellings.map((spelling) => [spelling === token, spelling === token ? status : 403]));
  });

  it.each(['authorization', 'AUTHORIZATION', 'aUTHORIZATION'])('accepts the header name %s', async (name) => {
    const json = body ?? '';
    const answer = await exchange(service.port, head(`${name}: Bearer ${await service.adminToken()}`, `Content-Length: ${json.length}`) + json);
    expect(answer.status).toBe(status);
    const twice = head(`${name}: Bearer ${await service.adminToken()}`, `Authorization: Bearer ${await service.adminToken()}`, 'Content-Length: 0');
    expect((await exchange(service.port, twice)).status).toBe(403);
  });

  it('refuses a repeated header, with one token or two', async () => {
    const [one, two] = [await service.adminToken(), await service.adminToken()];
    for (const pair of [[`Bearer ${one}`, `Bearer ${one}`], [`Bearer ${one}`, `Bearer ${two}`], [`Bearer ${one}`, ''], ['Basic eDp5', `Bearer ${one}`]]) {
      const answer = await exchange(service.port, head(...pair.map((value) => `Authorization: ${value}`), 'Content-Length: 0'));
      expect(answer).toMatchObject({ status: 403, body: '{"error":"Unauthorized."}' });
    }
  });

  it.each([
    ['malformed', ['Content-Length: 1'], '{'],
    ['not sent', ['Content-Length: 100'], ''],
    ['incomplete', ['Transfer-Encoding: chunked'], '5\r\n{"use\r\n'],
    ['waiting for 100 Continue', ['Content-Length: 100', 'Expect: 100-continue'], ''],
    ['too long and encoded in an unsupported way', ['Content-Length: 99999999999', 'Content-Encoding: x'], ''],
  ])('refuses before it reads a body that is %s', async (_what, headers, begun) => {
    const answer = await exchange(service.port, head(...headers) + begun);
    expect(answer).toMatchObject({ status: 403, body: '{"error":"Unauthorized."}' });
  });
});

function flip(text: string, index: number): string {
  return `${text.slice(0, index)}${text[index] === 'A' ? 'B' : 'A'}${text.slice(index + 1)}`;
}

const UNKNOWN = '/uploads/0197f0a0-0000-7000-8000-000000000000';

describe.each([
  ['GET', '/uploads?customer_id=acme', 'read:uploads', 200],
  ['GET', UNKNOWN, 'read:uploads', 404],
  ['GET', `${UNKNOWN}/content`, 'read:uploads', 404],
  ['DELETE', '/uploads?customer_id=acme&before=2020-01-01T00:00:00Z', 'delete:uploads', 200],
  ['DELETE', UNKNOWN, 'delete:uploads', 404],
])('%s %s', (method, target, permission, status) => {
  const ask = async (permissions: readonly string[]): Promise<Response> => send(method, target, `Bearer ${await tokenWith(permissions)}`);

  it(`serves a caller with only ${permission}, and refuses one with every other permission`, async () => {
    expect((await ask([permission])).status).toBe(status);
    await expectRefused(await ask(PERMISSIONS.filter((other) => other !== permission)));
  });
});

describe('create-user with roles', () => {
  const PATH = `${BASE}/create-user`;
  const both = ['create:users', 'assign:roles'];
  let roleId: string;
  beforeAll(async () => {
    roleId = await provider.createRole({ name: 'to be given', permissions: ['a:b'] }, options);
  });
  const create = async (permissions: readonly string[], fields: object): Promise<Response> =>
    send('POST', PATH, `Bearer ${await tokenWith(permissions)}`, JSON.stringify(fields));
  const newEmail = (): string => `new${++count}@grid.example`;
  const emails = async (): Promise<string[]> => {
    const found: string[] = [];
    for await (const page of provider.listUsers(options)) found.push(...page.map(({ email }) => email));
    return found;
  };

  it('needs assign:roles and create:users, and does nothing otherwise', async () => {
    const email = newEmail();
    await expectRefused(await create(['create:users'], { email, roles: [roleId] }));
    await expectRefused(await create(PERMISSIONS.filter((permission) => permission !== 'assign:roles'), { email, roles: [roleId] }));
    expect(await emails()).not.toContain(email);
    expect((await create(both, { email, roles: [roleId] })).status).toBe(201);
  });

  it('needs only create:users when the list of roles is empty', async () => {
    expect((await create(['create:users'], { email: newEmail(), roles: [] })).status).toBe(201);
  });

  it.each<[string, object]>([
    ['a malformed e-mail', { email: 'x', roles: [NOT_THERE] }],
    ['no e-mail', { roles: [NOT_THERE] }],
    ['an unknown role', { email: 'a@b.example', roles: [NOT_THERE] }],
    ['a role of another type', { email: 'a@b.example', roles: [1] }],
    ['roles that are not a list', { email: 'a@b.example', roles: 'x' }],
    ['roles that are an object', { email: 'a@b.example', roles: { 0: 'x' } }],
    ['a name of another type', { email: 'a@b.example', name: 1, roles: [NOT_THERE] }],
  ])('is refused for the missing permission before other defects: %s', async (_, fields) => {
    await expectRefused(await create(['create:users'], fields));
    expect((await create(both, fields)).status).toBe(400);
  });

  it.each<[string, unknown]>([['null', null], ['absent', undefined]])(
    'is rejected as malformed when roles is %s',
    async (_, roles) => {
      expect((await create(['create:users'], { email: newEmail(), roles })).status).toBe(400);
    },
  );

  it('is rejected as malformed when the body is not JSON, and refused without create:users', async () => {
    const ask = async (permission: string) => send('POST', PATH, `Bearer ${await tokenWith([permission])}`, '{"roles":["x"]');
    expect((await ask('create:users')).status).toBe(400);
    await expectRefused(await ask('assign:roles'));
  });
});

describe("a user's token", () => {
  it('contains the permissions that the roles gave when it was issued', async () => {
    const userId = await userWith([]);
    const before = await tokens.userToken(userId);
    const roleId = await provider.createRole({ name: 'reader', permissions: ['read:users', 'read:roles'] }, options);
    const assigned = await send('POST', `${BASE}/assign-role`, `Bearer ${await service.adminToken()}`, JSON.stringify({ user_id: userId, role_id: roleId }));
    expect(assigned.status).toBe(200);
    await expectRefused(await send('GET', `${BASE}/users`, `Bearer ${before}`));
    const after = `Bearer ${await tokens.userToken(userId)}`;
    expect((await send('GET', `${BASE}/users`, after)).status).toBe(200);
    expect((await send('GET', `${BASE}/roles`, after)).status).toBe(200);
    await expectRefused(await send('POST', `${BASE}/create-role`, after, '{}'));
  });

  it('of another service is refused', async () => {
    // The other service has a DATA_DIR of its own, so that it has other signing keys.
    const directory = await mkdtemp(join(tmpdir(), 'other-'));
    const other = await startService({ DATA_DIR: directory, PUBLIC_URL: service.url });
    await expectRefused(await send('GET', `${BASE}/users`, `Bearer ${await other.adminToken()}`));
    await other.close();
    await rm(directory, { recursive: true });
  });
});

/** The `customer_id` claim of a token, a query, and the status that an upload with both gets. */
const CLAIMS: [what: string, customers: string[], query: string, status: number][] = [
  ['the customer', ['acme'], 'customer_id=acme', 200],
  ['the customer, which comes last in the query', ['acme'], 'x=1&customer_id=acme', 200],
  ['the customer, which is percent-encoded in the query', ['ac me'], 'customer_id=%61c+me', 200],
  ['several customers including this one', ['other', 'acme'], 'customer_id=acme', 200],
  ['every customer', ['*'], 'customer_id=acme', 200],
  ['no customer', [], 'customer_id=acme', 403],
  ['another customer', ['other'], 'customer_id=acme', 403],
  ['other customers', ['other', 'acme2'], 'customer_id=acme', 403],
  ['a customer whose name begins with this one', ['acme2'], 'customer_id=acme', 403],
  ['the beginning of the customer', ['acm'], 'customer_id=acme', 403],
  ['a pattern', ['a*'], 'customer_id=acme', 403],
  ['the customer in another letter case', ['Acme'], 'customer_id=acme', 403],
  ['a list in one string', ['acme,other'], 'customer_id=acme', 403],
  ['one customer when the query has *', ['acme'], 'customer_id=*', 403],
  ['one customer when the query has none', ['acme'], '', 403],
  ['one customer when the query has an empty one', ['acme'], 'customer_id=', 403],
  ['one customer when the query has it twice', ['acme'], 'customer_id=acme&customer_id=acme', 403],
  ['one customer when the query also has another', ['acme'], 'customer_id=acme&customer_id=other', 403],
  ['one customer when the query also has another form', ['acme'], 'customer_id=acme&customer_id[]=acme', 403],
  ['one customer when the query is malformed', ['acme'], 'customer_id=acme%', 403],
  ['every customer when the query has none', ['*'], '', 400],
  ['every customer when the query has two', ['*'], 'customer_id=a&customer_id=b', 400],
  ['every customer when the query is malformed', ['*'], 'customer_id=%', 400],
];
/** The claims that are enough for the second upload operation, because both have one guard. */
const A_FEW = ['the customer', 'another customer', 'every customer when the query has none'];

describe.each(Object.entries(UPLOADS))('INGESTION_AUTH=required, upload_%s', (kind, path) => {
  const rest = 'filename=load.csv&manufacturer=meters';

  it.each(CLAIMS.filter(([what]) => kind === 'historical' || A_FEW.includes(what)))('decides on a claim with %s', async (_what, customers, customer, status) => {
    const before = await service.lines();
    const token = await tokenWith([`upload:${kind}`], customers);
    const answer = await send('POST', `${path}?${customer}&${rest}`, `Bearer ${token}`, '{}');
    const body = { 200: '{"status":"success","message":"Data uploaded successfully."}', 403: '{"error":"Unauthorized."}' }[status];
    expect({ status: answer.status, body: await answer.text() }).toEqual({ status, body: body ?? '{"error":"Invalid or missing query parameter."}' });
    expect((await service.lines()).length - before.length).toBe(status === 200 ? 1 : 0);
  });

  it('stores no file of a refused caller', async () => {
    const headers = { 'Content-Type': 'text/csv', Authorization: `Bearer ${await tokenWith([], ['acme'])}` };
    await expectRefused(await fetch(service.url + path + QUERY, { method: 'POST', headers, body: 'a,b' }));
    expect(await service.files('staging')).toEqual([]);
    expect(await service.files('files')).toEqual([]);
  });
});

describe('INGESTION_AUTH by default', () => {
  let open: RunningService;
  beforeAll(async () => {
    open = await startService();
  });
  afterAll(() => open.close());

  it.each(Object.values(UPLOADS).flatMap((path) => [undefined, 'Bearer x', 'Basic eDp5'].map((header) => [path, header] as const)))(
    'needs no token for POST %s (Authorization: %s)',
    async (path, authorization) => {
      const answer = await fetch(open.url + path + QUERY, { method: 'POST', headers: authorization ? { authorization } : {} });
      expect(answer.status).toBe(200);
    },
  );

  it.each(OPERATIONS.slice(0, 6))('still requires a token for %s %s', async (method, target) => {
    await expectRefused(await fetch(open.url + target, { method }));
  });
});
