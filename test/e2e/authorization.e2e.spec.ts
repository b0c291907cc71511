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

/** What a request without a defect in its form gets of those who may ask; nothing is changed by any. */
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
/** A new user whose roles give these permissions, one a role. */
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

describe.each(OPERATIONS)('%s %s', (method, target, permission, fields, status) => {
  const body = fields && JSON.stringify(fields);
  const ask = (authorization?: string): Promise<Response> => send(method, target, authorization, body);

  it(`serves who has ${permission} alone`, async () => {
    expect((await ask(`Bearer ${await tokenWith([permission])}`)).status).toBe(status);
  });

  it("serves the administrator's token", async () => {
    expect((await ask(`Bearer ${await service.adminToken()}`)).status).toBe(status);
  });

  it('refuses who has every other permission', async () => {
    await expectRefused(await ask(`Bearer ${await tokenWith(PERMISSIONS.filter((other) => other !== permission))}`));
  });

  it('refuses who has none', async () => {
    await expectRefused(await ask(`Bearer ${await tokenWith([])}`));
  });

  const [action = '', scope = ''] = permission.split(':');
  it.each(['*:*', `${action}:*`, `*:${scope}`, permission.toUpperCase(), `${permission}:x`, `x${permission}`, `${scope}:${action}`, `${permission}.*`])(
    'takes %s for what it says, another permission',
    async (other) => {
      await expectRefused(await ask(`Bearer ${await tokenWith([other])}`));
    },
  );

  it.each<[string, (token: string) => string | undefined]>([
    ['no header', () => undefined],
    ['an empty header', () => ''],
    ['the token alone', (token) => token],
    ['the scheme alone', () => 'Bearer'],
    ['the scheme and a blank', () => 'Bearer '],
    ['another scheme', (token) => `Basic ${token}`],
    ['a scheme that begins like it', (token) => `Bearers ${token}`],
    ['another scheme in front', (token) => `Basic Bearer ${token}`],
    ['no blank', (token) => `Bearer${token}`],
    ['a colon', (token) => `Bearer: ${token}`],
    ['an equals sign', (token) => `Bearer=${token}`],
    ['quotes', (token) => `Bearer "${token}"`],
    ['two tokens', (token) => `Bearer ${token} ${token}`],
    ['two in a list', (token) => `Bearer ${token}, Bearer ${token}`],
    ['a comma behind', (token) => `Bearer ${token},`],
    ['a parameter behind', (token) => `Bearer ${token};x=1`],
    ['no token', () => 'Bearer x'],
    ['two dots', () => 'Bearer ..'],
    ['half a token', (token) => `Bearer ${token.slice(0, token.length / 2)}`],
    ['no signature', (token) => `Bearer ${token.slice(0, token.lastIndexOf('.') + 1)}`],
    ['one bit less in the signature', (token) => `Bearer ${flip(token, token.lastIndexOf('.') + 9)}`],
    ['one bit less in the claims', (token) => `Bearer ${flip(token, token.indexOf('.') + 9)}`],
    ['no algorithm', (token) => `Bearer ${Buffer.from('{"alg":"none"}').toString('base64url')}.${token.split('.')[1] ?? ''}.`],
    ['padding behind the signature', (token) => `Bearer ${token}==`],
    ['padding behind the claims', (token) => `Bearer ${token.replace(/\.(?=[^.]*$)/, '=.')}`],
    ['a fourth part', (token) => `Bearer ${token}.AAAA`],
    ['base64 in place of base64url', (token) => `Bearer ${token.slice(0, -2)}+/`],
    ['one far too long', (token) => `Bearer ${token}${'x'.repeat(8192)}`],
  ])('refuses %s', async (_what, authorization) => {
    await expectRefused(await ask(authorization(await service.adminToken())));
  });

  it.each(['Bearer ', 'bearer ', 'BEARER ', 'bEaReR ', 'Bearer    '])('takes "%s" and a token', async (scheme) => {
    expect((await ask(scheme + (await service.adminToken()))).status).toBe(status);
  });

  it('takes one spelling of a signature, of the sixteen that decode to the same bytes', async () => {
    const token = await service.adminToken();
    const bytesOf = (text: string) => Buffer.from(text.slice(text.lastIndexOf('.') + 1), 'base64url');
    const last = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const spellings = Array.from(last, (end) => token.slice(0, -1) + end).filter((text) => bytesOf(text).equals(bytesOf(token)));
    expect(spellings).toHaveLength(16);
    const statuses = await Promise.all(spellings.map(async (spelling) => (await ask(`Bearer ${spelling}`)).status));
    expect(statuses.map((each, index) => [spellings[index] === token, each])).toEqual(spellings.map((spelling) => [spelling === token, spelling === token ? status : 403]));
  });

  it.each(['authorization', 'AUTHORIZATION', 'aUTHORIZATION'])('knows the header by the name %s', async (name) => {
    const json = body ?? '';
    const answer = await exchange(service.port, head(`${name}: Bearer ${await service.adminToken()}`, `Content-Length: ${json.length}`) + json);
    expect(answer.status).toBe(status);
    const twice = head(`${name}: Bearer ${await service.adminToken()}`, `Authorization: Bearer ${await service.adminToken()}`, 'Content-Length: 0');
    expect((await exchange(service.port, twice)).status).toBe(403);
  });

  const head = (...headers: string[]): string => [`${method} ${target} HTTP/1.1`, 'Host: x', 'Content-Type: application/json', ...headers, '', ''].join('\r\n');

  it('refuses the header twice, with one token or two', async () => {
    const [one, two] = [await service.adminToken(), await service.adminToken()];
    for (const pair of [[`Bearer ${one}`, `Bearer ${one}`], [`Bearer ${one}`, `Bearer ${two}`], [`Bearer ${one}`, ''], ['Basic eDp5', `Bearer ${one}`]]) {
      const answer = await exchange(service.port, head(...pair.map((value) => `Authorization: ${value}`), 'Content-Length: 0'));
      expect(answer).toMatchObject({ status: 403, body: '{"error":"Unauthorized."}' });
    }
  });

  it.each([
    ['malformed', ['Content-Length: 1'], '{'],
    ['not sent', ['Content-Length: 100'], ''],
    ['begun', ['Transfer-Encoding: chunked'], '5\r\n{"use\r\n'],
    ['waiting to be asked for', ['Content-Length: 100', 'Expect: 100-continue'], ''],
    ['too long, and of no type that is served', ['Content-Length: 99999999999', 'Content-Encoding: x'], ''],
  ])('refuses before it looks at a body that is %s', async (_what, headers, begun) => {
    const answer = await exchange(service.port, head(...headers) + begun);
    expect(answer).toMatchObject({ status: 403, body: '{"error":"Unauthorized."}' });
  });
});

function flip(text: string, index: number): string {
  return `${text.slice(0, index)}${text[index] === 'A' ? 'B' : 'A'}${text.slice(index + 1)}`;
}

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

  it('takes assign:roles beside create:users, and does nothing without', async () => {
    const email = newEmail();
    await expectRefused(await create(['create:users'], { email, roles: [roleId] }));
    await expectRefused(await create(PERMISSIONS.filter((permission) => permission !== 'assign:roles'), { email, roles: [roleId] }));
    expect(await emails()).not.toContain(email);
    expect((await create(both, { email, roles: [roleId] })).status).toBe(201);
  });

  it('without any takes create:users alone', async () => {
    expect((await create(['create:users'], { email: newEmail(), roles: [] })).status).toBe(201);
  });

  it.each<[string, object]>([
    ['an e-mail that is none', { email: 'x', roles: [NOT_THERE] }],
    ['no e-mail', { roles: [NOT_THERE] }],
    ['a role that is not there', { email: 'a@b.example', roles: [NOT_THERE] }],
    ['a role of another type', { email: 'a@b.example', roles: [1] }],
    ['roles that are no list', { email: 'a@b.example', roles: 'x' }],
    ['roles that are an object', { email: 'a@b.example', roles: { 0: 'x' } }],
    ['a name of another type', { email: 'a@b.example', name: 1, roles: [NOT_THERE] }],
  ])('is refused as such before what else is wrong is looked at: %s', async (_, fields) => {
    await expectRefused(await create(['create:users'], fields));
    expect((await create(both, fields)).status).toBe(400);
  });

  it.each<[string, unknown]>([['null', null], ['absent', undefined]])(
    'is a malformed request where roles is %s',
    async (_, roles) => {
      expect((await create(['create:users'], { email: newEmail(), roles })).status).toBe(400);
    },
  );

  it('is a malformed request where the body is no JSON, and none at all without create:users', async () => {
    const ask = async (permission: string) => send('POST', PATH, `Bearer ${await tokenWith([permission])}`, '{"roles":["x"]');
    expect((await ask('create:users')).status).toBe(400);
    await expectRefused(await ask('assign:roles'));
  });
});

describe("a user's token", () => {
  it('says what the roles gave when it was made', async () => {
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
    const other = await startService();
    await expectRefused(await send('GET', `${BASE}/users`, `Bearer ${await other.adminToken()}`));
    await other.close();
  });
});

describe.each(Object.entries(UPLOADS))('INGESTION_AUTH=required, upload_%s', (kind, path) => {
  const rest = 'filename=load.csv&manufacturer=meters';

  it.each<[string, string[], string, number]>([
    ['the customer', ['acme'], 'customer_id=acme', 200],
    ['the customer, in the query last', ['acme'], 'x=1&customer_id=acme', 200],
    ['the customer, percent-encoded in the query', ['ac me'], 'customer_id=%61c+me', 200],
    ['several customers, this among them', ['other', 'acme'], 'customer_id=acme', 200],
    ['every customer', ['*'], 'customer_id=acme', 200],
    ['no customer', [], 'customer_id=acme', 403],
    ['another customer', ['other'], 'customer_id=acme', 403],
    ['other customers', ['other', 'acme2'], 'customer_id=acme', 403],
    ['a customer whose name begins so', ['acme2'], 'customer_id=acme', 403],
    ['the beginning of the customer', ['acm'], 'customer_id=acme', 403],
    ['a pattern', ['a*'], 'customer_id=acme', 403],
    ['the customer in another letter case', ['Acme'], 'customer_id=acme', 403],
    ['a list in one text', ['acme,other'], 'customer_id=acme', 403],
    ['one, and the query asks for *', ['acme'], 'customer_id=*', 403],
    ['one, and the query has none', ['acme'], '', 403],
    ['one, and the query has an empty one', ['acme'], 'customer_id=', 403],
    ['one, and the query has it twice', ['acme'], 'customer_id=acme&customer_id=acme', 403],
    ['one, and the query has another one too', ['acme'], 'customer_id=acme&customer_id=other', 403],
    ['one, and the query has another form too', ['acme'], 'customer_id=acme&customer_id[]=acme', 403],
    ['one, and the query is malformed', ['acme'], 'customer_id=acme%', 403],
    ['every customer, and the query has none', ['*'], '', 400],
    ['every customer, and the query has two', ['*'], 'customer_id=a&customer_id=b', 400],
    ['every customer, and the query is malformed', ['*'], 'customer_id=%', 400],
  ])('a claim of %s', async (_what, customers, customer, status) => {
    const before = await service.lines();
    const token = await tokenWith([`upload:${kind}`], customers);
    const answer = await send('POST', `${path}?${customer}&${rest}`, `Bearer ${token}`, '{}');
    const body = { 200: '{"status":"success","message":"Data uploaded successfully."}', 403: '{"error":"Unauthorized."}' }[status];
    expect({ status: answer.status, body: await answer.text() }).toEqual({ status, body: body ?? '{"error":"Invalid or missing query parameter."}' });
    expect((await service.lines()).length - before.length).toBe(status === 200 ? 1 : 0);
  });

  it('keeps no file of who is refused', async () => {
    const headers = { 'Content-Type': 'text/csv', Authorization: `Bearer ${await tokenWith([], ['acme'])}` };
    await expectRefused(await fetch(service.url + path + QUERY, { method: 'POST', headers, body: 'a,b' }));
    expect(await service.files('staging')).toEqual([]);
    expect(await service.files('files')).toEqual([]);
  });
});

describe('INGESTION_AUTH as it is by default, open', () => {
  let open: RunningService;
  beforeAll(async () => {
    open = await startService();
  });
  afterAll(() => open.close());

  it.each(Object.values(UPLOADS).flatMap((path) => [undefined, 'Bearer x', 'Basic eDp5'].map((header) => [path, header] as const)))(
    'POST %s needs no token, and passes over %s',
    async (path, authorization) => {
      const answer = await fetch(open.url + path + QUERY, { method: 'POST', headers: authorization ? { authorization } : {} });
      expect(answer.status).toBe(200);
    },
  );

  it.each(OPERATIONS.slice(0, 6))('%s %s needs one all the same', async (method, target) => {
    await expectRefused(await fetch(open.url + target, { method }));
  });
});
