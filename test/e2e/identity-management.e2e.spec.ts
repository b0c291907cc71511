import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EmbeddedIdentityProvider } from '../../src/identity-management/adapters/out/embedded/embedded.identity-provider.adapter.js';
import { exchange } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

const BASE = '/idpManagementBackend';
const MAX_JSON = 32_768;
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.source;
const ROLE_ID = 'role_[0-9a-f]{32}';
const USER_ID = `embedded\\|${UUID}`;

type Fields = Record<string, unknown>;

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Headers;
}

let service: RunningService;
let token: string;
/** A role and a user that are there before every row; `taken` are the name and the e-mail that they have. */
const known = { roleId: '', userId: '', roleName: 'taken', email: 'taken@grid.example' };

beforeAll(async () => {
  service = await startService({ MAX_JSON_BYTES: String(MAX_JSON), REQUEST_IDLE_TIMEOUT_MS: '2000' });
  token = await service.adminToken();
  known.roleId = await created('create-role', { role_name: known.roleName, permissions: ['read:roles'] });
  known.userId = await created('create-user', { email: known.email, roles: [] });
});
afterAll(() => service.close());

async function send(method: string, path: string, init: RequestInit = {}): Promise<Answer> {
  const headers = { Authorization: `Bearer ${token}`, ...(init.headers as Record<string, string> | undefined) };
  const answer = await fetch(service.url + path, { ...init, method, headers });
  return { status: answer.status, body: await answer.text(), headers: answer.headers };
}

const JSON_TYPE = { 'Content-Type': 'application/json' };
const bytes = (body: string | Buffer): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(body));
const postRaw = (operation: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<Answer> =>
  send('POST', `${BASE}/${operation}`, { body: bytes(body), headers: { ...JSON_TYPE, ...headers } });
const post = (operation: string, fields: unknown): Promise<Answer> => postRaw(operation, JSON.stringify(fields));

function expectForm({ headers }: Answer): void {
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
}

function expectAnswer(answer: Answer, status: number, body: string | RegExp): void {
  expect({ status: answer.status, body: answer.body }).toEqual({
    status,
    body: typeof body === 'string' ? body : (expect.stringMatching(body) as string),
  });
  expectForm(answer);
}

const expectError = (answer: Answer, status: number, error: string): void => {
  expectAnswer(answer, status, JSON.stringify({ error }));
};

/** Does what must succeed with 201; returns the new id. */
async function created(operation: 'create-role' | 'create-user', fields: Fields): Promise<string> {
  const answer = await post(operation, fields);
  expect({ status: answer.status, body: answer.body }).toMatchObject({ status: 201 });
  return String(Object.values(JSON.parse(answer.body) as Fields)[1]);
}

const list = async (member: 'roles' | 'users'): Promise<Fields[]> =>
  (JSON.parse((await send('GET', `${BASE}/${member}`)).body) as Record<string, Fields[]>)[member] ?? [];
const userOf = async (id: string): Promise<Fields | undefined> => (await list('users')).find(({ user_id }) => user_id === id);
const permissionsOf = (id: string): Promise<string[]> => service.app.get(EmbeddedIdentityProvider, { strict: false }).permissionsOf(id);

let count = 0;
const fresh = (): string => `n${++count}`;
const freshEmail = (): string => `${fresh()}@grid.example`;

/** A request that succeeds, made anew for each row. */
const GOOD = {
  'assign-role': () => ({ user_id: known.userId, role_id: known.roleId }),
  'create-role': () => ({ role_name: fresh(), permissions: ['upload:historical'] }),
  'create-user': () => ({ email: freshEmail(), name: 'Operator', roles: [known.roleId] }),
  'update-user': () => ({ user_id: known.userId, new_name: 'Operator' }),
} as const satisfies Record<string, () => Fields>;
type Operation = keyof typeof GOOD;
const OPERATIONS = Object.keys(GOOD) as Operation[];

const REFUSAL: Record<Operation, string> = {
  'assign-role': 'Invalid user_id or role_id.',
  'create-role': 'Invalid role_name or permissions.',
  'create-user': 'Invalid email or roles.',
  'update-user': 'Invalid user_id or new_name.',
};

describe('what succeeds', () => {
  it.each<[Operation, number, RegExp]>([
    ['assign-role', 200, /^\{"status":"success","message":"Role assigned successfully\."\}$/],
    ['create-role', 201, new RegExp(`^\\{"status":"success","role_id":"${ROLE_ID}","message":"Role created successfully\\."\\}$`)],
    ['create-user', 201, new RegExp(`^\\{"status":"success","user_id":"${USER_ID}","message":"User created successfully\\."\\}$`)],
    ['update-user', 200, /^\{"status":"success","message":"User updated successfully\."\}$/],
  ])('POST /%s', async (operation, status, body) => {
    expectAnswer(await post(operation, GOOD[operation]()), status, body);
  });

  it.each<['roles' | 'users', RegExp]>([
    ['roles', new RegExp(`^\\{"roles":\\[(\\{"role_id":"${ROLE_ID}","name":"[^"]*"\\},?)+\\]\\}$`)],
    ['users', new RegExp(`^\\{"users":\\[(\\{"user_id":"${USER_ID}","name":"[^"]*","email":"[^"]*"\\},?)+\\]\\}$`)],
  ])('GET /%s', async (member, body) => {
    expectAnswer(await send('GET', `${BASE}/${member}`), 200, body);
  });

  it.each(['roles', 'users'])('GET /%s of an empty provider', async (member) => {
    const empty = await startService();
    const headers = { Authorization: `Bearer ${await empty.adminToken()}` };
    expect(await (await fetch(`${empty.url}${BASE}/${member}`, { headers })).text()).toBe(`{"${member}":[]}`);
    await empty.close();
  });

  it.each([...OPERATIONS.map((operation) => ['POST', operation] as const), ['GET', 'roles'] as const, ['GET', 'users'] as const])(
    "%s /%s keeps the client's request id",
    async (method, path) => {
      const { headers } = await send(method, `${BASE}/${path}`, { headers: { 'X-Request-Id': 'a.B_c-9' } });
      expect(headers.get('x-request-id')).toBe('a.B_c-9');
    },
  );

  it('lists what was created, in the fields of the interface', async () => {
    const role = GOOD['create-role']();
    const roleId = await created('create-role', role);
    expect(await list('roles')).toContainEqual({ role_id: roleId, name: role.role_name });
    const user = GOOD['create-user']();
    const userId = await created('create-user', user);
    expect(await userOf(userId)).toEqual({ user_id: userId, name: 'Operator', email: user.email });
    await post('update-user', { user_id: userId, new_name: 'Night shift' });
    expect(await userOf(userId)).toEqual({ user_id: userId, name: 'Night shift', email: user.email });
  });

  it('assigns a role once, however often it is asked to', async () => {
    const userId = await created('create-user', { email: freshEmail(), roles: [] });
    for (let time = 0; time < 2; time++) {
      expectAnswer(await post('assign-role', { ...GOOD['assign-role'](), user_id: userId }), 200, /assigned/);
      expect(await permissionsOf(userId)).toEqual(['read:roles']);
    }
  });
});

// U+0085 and the blanks of C0 are control characters, too.
const WHITE_SPACE = [9, 10, 11, 12, 13, 0x20, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000]
  .concat(Array.from({ length: 11 }, (_, index) => 0x2000 + index))
  .map((code) => String.fromCodePoint(code));
const CONTROLS = Array.from({ length: 0xa0 }, (_, code) => code).filter((code) => code < 0x20 || code > 0x7e);
const hex = (text: string | number): string => (typeof text === 'number' ? text : (text.codePointAt(0) ?? 0)).toString(16).padStart(4, '0');

type Row = readonly [what: string, value: unknown];

const WRONG_TYPES: Row[] = [
  ['missing', undefined],
  ['null', null],
  ['a number', 7],
  ['a boolean', true],
  ['an array', ['x']],
  ['an object', { x: 'x' }],
];

const badNames = (most: number): Row[] => [
  ...WRONG_TYPES,
  ['empty', ''],
  ...WHITE_SPACE.map((blank): Row => [`nothing but U+${hex(blank)}`, blank.repeat(2)]),
  ['nothing but different blanks', ' \u3000\u2003'],
  ...CONTROLS.map((code): Row => [`with U+${hex(code)}`, `a${String.fromCodePoint(code)}b`]),
  ['that ends with a line break', 'a\n'],
  ['a lone high surrogate', 'a\ud800'],
  ['a lone low surrogate', '\udc00a'],
  ['surrogates in the wrong order', '\ude00\ud83d'],
  [`${most + 1} characters`, 'a'.repeat(most + 1)],
  [`${most + 1} astral characters`, '😀'.repeat(most + 1)],
  [`${most} astral characters and one more`, `${'😀'.repeat(most)}a`],
  ['far too long', 'a'.repeat(20_000)],
];

const goodNames = (most: number): (readonly [string, string])[] => [
  ['one character', 'ｘ'],
  [`${most} characters`, 'a'.repeat(most)],
  [`${most} astral characters`, '😀'.repeat(most)],
  ['blanks around, kept', ' \u3000a '],
  ['U+200B, which is no White_Space', '\u200b'],
  ['U+FEFF, which is no White_Space', '\ufeff'],
  ['U+00AD and U+00A0 inside', 'a\u00ad\u00a0b'],
  ['composed', 'caf\u00e9'],
  ['decomposed, another text', 'cafe\u0301'],
  ['upper case, another text', 'TAKEN'],
  ["a prototype's member", '__proto__'],
  ['quotes', '"\'`\\'],
  ["SQL's", "'); DROP TABLE users;--"],
];

const badIds = (prefix: string, id: () => string): Row[] => [
  ...WRONG_TYPES,
  ['empty', ''],
  ['blank', ' '],
  ['unknown', `${prefix}00000000-0000-4000-8000-000000000000`],
  ['unknown, without dashes', `${prefix}${'0'.repeat(32)}`],
  ['of no known form', 'x'],
  ['the prefix alone', prefix],
  ['of another provider', 'keycloak|00000000-0000-4000-8000-000000000000'],
  ['with a control character', 'a\u0000'],
  ['with a lone surrogate', '\ud800'],
  ['far too long', 'a'.repeat(20_000)],
  ['a wildcard', '%'],
  ['with a blank behind', () => `${id()} `],
  ['in upper case', () => id().toUpperCase()],
  ['without its last character', () => id().slice(0, -1)],
  ['in an array', () => [id()]],
];

const permissions = (length: number): string[] => Array.from({ length }, (_, index) => `read:${index}`);
const LABEL = 'd'.repeat(63);
/** An address of so many characters, whose parts keep to their own limits. */
const longEmail = (length: number): string => `${'l'.repeat(64)}@${LABEL}.${LABEL}.${'e'.repeat(length - 64 - 1 - 128 - 3)}.de`;

const BAD_PERMISSIONS: Row[] = [
  ['missing', undefined],
  ['null', null],
  ['a text', 'read:roles'],
  ['an object', { 0: 'read:roles', length: 1 }],
  ['empty', []],
  ['a number in it', ['read:roles', 1]],
  ['null in it', ['read:roles', null]],
  ['an array in it', [['read:roles']]],
  ['an object in it', [{ permission: 'read:roles' }]],
  ...['', ' ', 'read', 'read:', ':roles', ':', 'a:b c', 'a b:c', 'a:b\n', '\na:b', 'ä:b', 'a:ä', 'a/b:c', 'a:b,c', 'a:b|c', 'a:\u0000', 'a:😀'].map(
    (text): Row => [`with ${JSON.stringify(text)}`, ['read:roles', text]],
  ),
  ['256 characters', [`a:${'b'.repeat(254)}`]],
  ['257 distinct ones', permissions(257)],
];

const GOOD_PERMISSIONS: (readonly [string, string[], string[]])[] = [
  ['every character of an action', ['aZ09_.*-:x'], ['aZ09_.*-:x']],
  ['every character of a scope', ['x:aZ09_./:*-'], ['x:aZ09_./:*-']],
  ['255 characters', [`a:${'b'.repeat(253)}`], [`a:${'b'.repeat(253)}`]],
  ['256 distinct ones', permissions(256), permissions(256).sort()],
  ['256 distinct ones, each repeated', [...permissions(256), ...permissions(256)], permissions(256).sort()],
  ['repeated ones once', ['b:x', 'a:x', 'b:x'], ['a:x', 'b:x']],
  ['another letter case is another one', ['a:x', 'A:x'], ['A:x', 'a:x']],
];

const BAD_EMAILS: Row[] = [
  ...WRONG_TYPES,
  ...['', ' ', 'a', 'a@', '@grid.example', 'a@grid', 'a@grid.', 'a@.example', 'a@grid..example', '.a@grid.example', 'a.@grid.example', 'a b@grid.example'].map(
    (text): Row => [JSON.stringify(text), text],
  ),
  ...['a@b@grid.example', ' a@grid.example', 'a@grid.example ', 'a@grid.example\n', 'a@grid_.example', 'A <a@grid.example>', 'a@grid.example,b@grid.example'].map(
    (text): Row => [JSON.stringify(text), text],
  ),
  ...['\u0000', '\u001f', '\u007f', '\u0085', '\u009f', '\u00a0', '\ud800'].map((text): Row => [`with U+${hex(text)}`, `a${text}@grid.example`]),
  ['255 characters', longEmail(255)],
  ['far too long', `${'a'.repeat(20_000)}@grid.example`],
  ['taken', known.email],
  ['taken in upper case', known.email.toUpperCase()],
  ['taken in another letter case', 'Taken@Grid.Example'],
];

const BAD_ROLES: Row[] = [
  ['missing', undefined],
  ['null', null],
  ['an object', {}],
  ['a number', 1],
  ['a text', () => known.roleId],
  ['a number in it', () => [known.roleId, 1]],
  ['null in it', () => [known.roleId, null]],
  ['an array in it', () => [[known.roleId]]],
  ['an object in it', () => [{ role_id: known.roleId }]],
  ['an empty text in it', () => [known.roleId, '']],
  ['a name in place of an id', [known.roleName]],
  ['an unknown one', [`role_${'0'.repeat(32)}`]],
  ['a known and an unknown one', () => [known.roleId, `role_${'0'.repeat(32)}`]],
  ['one in upper case', () => [known.roleId.toUpperCase()]],
  ["another provider's", ['rol_0123456789abcdef']],
];

const MEMBERS: [Operation, string, Row[]][] = [
  ['assign-role', 'user_id', badIds('embedded|', () => known.userId)],
  ['assign-role', 'role_id', badIds('role_', () => known.roleId)],
  ['create-role', 'role_name', [...badNames(128), ['in use', known.roleName]]],
  ['create-role', 'permissions', BAD_PERMISSIONS],
  ['create-user', 'email', BAD_EMAILS],
  ['create-user', 'name', badNames(255).filter(([what]) => what !== 'missing')],
  ['create-user', 'roles', BAD_ROLES],
  ['update-user', 'user_id', badIds('embedded|', () => known.userId)],
  ['update-user', 'new_name', badNames(255)],
];

describe.each(MEMBERS)('POST /%s refuses %s', (operation, member, rows) => {
  it.each(rows)('%s', async (_what, value) => {
    const before = [await list('roles'), await list('users')];
    const given: unknown = typeof value === 'function' ? (value as () => unknown)() : value;
    expectError(await post(operation, { ...GOOD[operation](), [member]: given }), 400, REFUSAL[operation]);
    expect([await list('roles'), await list('users')]).toEqual(before);
  });
});

describe.each(OPERATIONS)('POST /%s as a body', (operation) => {
  it.each<[string, string | Buffer]>([
    ['empty', ''],
    ['blank', ' '],
    ['no JSON', 'role_name=x'],
    ['cut off', '{"user_id":"a"'],
    ['with more behind', '{}{}'],
    ['not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['an empty object', '{}'],
    ['an array', '[]'],
    ['an array of an object', '[{}]'],
    ['null', 'null'],
    ['true', 'true'],
    ['a number', '1'],
    ['a text', '"{}"'],
    ['deep', `{"user_id":${'['.repeat(15_000)}${']'.repeat(15_000)}}`],
  ])('refuses one that is %s', async (_what, body) => {
    expectError(await postRaw(operation, body), 400, REFUSAL[operation]);
  });

  it('refuses good members in an array', async () => {
    expectError(await post(operation, [GOOD[operation]()]), 400, REFUSAL[operation]);
  });

  it('refuses good members behind __proto__', async () => {
    expectError(await postRaw(operation, `{"__proto__":${JSON.stringify(GOOD[operation]())}}`), 400, REFUSAL[operation]);
  });

  it('refuses none at all, with and without a type', async () => {
    const none = await send('POST', `${BASE}/${operation}`);
    const typed = await send('POST', `${BASE}/${operation}`, { headers: JSON_TYPE });
    expectError(none, 400, REFUSAL[operation]);
    expectError(typed, 400, REFUSAL[operation]);
  });

  it('passes over unknown members', async () => {
    const more = '"more":{"a":[{}]},"constructor":1,"__proto__":{"name":7},"id":null,';
    const { status } = await postRaw(operation, JSON.stringify(GOOD[operation]()).replace('{', `{${more}`));
    expect(status).toBe(operation.startsWith('create') ? 201 : 200);
  });
});

describe('what is kept', () => {
  it.each(goodNames(128))('create-role takes a name: %s', async (_what, name) => {
    const roleId = await created('create-role', { ...GOOD['create-role'](), role_name: name });
    expect(await list('roles')).toContainEqual({ role_id: roleId, name });
    expectError(await post('create-role', { ...GOOD['create-role'](), role_name: name }), 400, REFUSAL['create-role']);
  });

  it.each(goodNames(255))('create-user and update-user take a name: %s', async (_what, name) => {
    const userId = await created('create-user', { ...GOOD['create-user'](), name });
    expect(await userOf(userId)).toMatchObject({ name });
    await post('update-user', { user_id: userId, new_name: 'between' });
    expect((await post('update-user', { user_id: userId, new_name: name })).status).toBe(200);
    expect(await userOf(userId)).toMatchObject({ name });
  });

  it.each(GOOD_PERMISSIONS)('create-role takes permissions: %s', async (_what, given, kept) => {
    const roleId = await created('create-role', { role_name: fresh(), permissions: given });
    expect(await permissionsOf(await created('create-user', { email: freshEmail(), roles: [roleId] }))).toEqual(kept);
  });

  it.each([
    ['lower case', 'first.last+tag@grid.example', 'first.last+tag@grid.example'],
    ['upper case', 'UPPER@GRID.EXAMPLE', 'upper@grid.example'],
    ['letters beyond ASCII', 'ÄÖ@Grid.Example', 'äö@grid.example'],
    ['a letter whose small form depends on its place', 'ΟΔΟΣ@grid.example', 'οδοσ@grid.example'],
    ['254 characters', longEmail(254).toUpperCase(), longEmail(254)],
    ['a quote', "o'hara@grid.example", "o'hara@grid.example"],
  ])('create-user keeps an e-mail in lower case, as the name too where there is none: %s', async (_what, email, kept) => {
    const userId = await created('create-user', { email, roles: [] });
    expect(await userOf(userId)).toEqual({ user_id: userId, name: kept, email: kept });
    expectError(await post('create-user', { email: kept, roles: [] }), 400, REFUSAL['create-user']);
  });

  it.each<[string, () => string[], string[]]>([
    ['none', () => [], []],
    ['one', () => [known.roleId], ['read:roles']],
    ['one repeated', () => [known.roleId, known.roleId], ['read:roles']],
  ])('create-user gives roles: %s', async (_what, roles, kept) => {
    expect(await permissionsOf(await created('create-user', { email: freshEmail(), roles: roles() }))).toEqual(kept);
  });

  it('leaves no user behind whose roles could not be given', async () => {
    const email = freshEmail();
    expectError(await post('create-user', { email, roles: [known.roleId, 'role_x'] }), 400, REFUSAL['create-user']);
    expect((await list('users')).map((user) => user.email)).not.toContain(email);
    await created('create-user', { email, roles: [known.roleId] });
  });

  it.each<[Operation, () => Fields, 'roles' | 'users', string]>([
    ['create-role', () => ({ role_name: 'contended', permissions: ['a:b'] }), 'roles', 'name'],
    ['create-user', () => ({ email: 'contended@grid.example', roles: [] }), 'users', 'email'],
  ])('lets one of 50 simultaneous %s through', async (operation, fields, member, key) => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(operation, fields())));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    const refused = answers.filter(({ status }) => status !== 201);
    expect(refused).toHaveLength(49);
    for (const answer of refused) expectError(answer, 400, REFUSAL[operation]);
    expect((await list(member)).filter((item) => String(item[key]).startsWith('contended'))).toHaveLength(1);
  });
});

describe('paths and methods', () => {
  it.each(['?', '?x=1&x=2', '?%', '?roles[]=1'])('GET with %s behind is the same', async (query) => {
    for (const member of ['roles', 'users']) {
      const plain = await send('GET', `${BASE}/${member}`);
      expectAnswer(await send('GET', `${BASE}/${member}${query}`), 200, plain.body);
    }
  });

  it.each(['/', '//', '/x', '%2F', ';x', '.json', '%20'])('GET with %s behind is unknown', async (rest) => {
    expectError(await send('GET', `${BASE}/roles${rest}`), 404, 'Not found.');
    expectError(await send('GET', `${BASE}/users${rest}`), 404, 'Not found.');
  });

  it.each(['/roles', BASE, `${BASE}/`, `${BASE}/nothing`, `${BASE}//roles`, `${BASE}/Roles`, `${BASE.toUpperCase()}/roles`, `/x${BASE}/roles`])(
    'GET %s is unknown',
    async (path) => {
      expectError(await send('GET', path), 404, 'Not found.');
    },
  );

  it('GET passes over a body', async () => {
    const request = `GET ${BASE}/roles HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n{`;
    expect((await exchange(service.port, request)).status).toBe(200);
  });

  it.each(['roles', 'users'])('HEAD goes with GET /%s', async (member) => {
    expectAnswer(await send('HEAD', `${BASE}/${member}`), 200, '');
  });

  const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
  it.each(
    [...OPERATIONS.map((operation) => [operation, ['POST']] as const), ['roles', ['GET', 'HEAD']] as const, ['users', ['GET', 'HEAD']] as const].flatMap(
      ([path, served]) => methods.filter((method) => !served.includes(method as never)).map((method) => [method, path] as const),
    ),
  )('%s /%s is unknown, with and without a token', async (method, path) => {
    const body = method === 'HEAD' ? '' : JSON.stringify({ error: 'Not found.' });
    expectAnswer(await send(method, `${BASE}/${path}`), 404, body);
    expectAnswer(await send(method, `${BASE}/${path}`, { headers: { Authorization: '' } }), 404, body);
  });
});

describe('content types and codings', () => {
  const json = (): string => JSON.stringify(GOOD['create-role']());
  /** The same with blanks behind it, so many bytes in all. */
  const padded = (length: number): Buffer => Buffer.from(json().padEnd(length));

  it.each(['application/json', 'application/json; charset=utf-8', 'application/json;charset=UTF-8', 'Application/JSON'])('takes %s', async (type) => {
    expect((await postRaw('create-role', json(), { 'Content-Type': type })).status).toBe(201);
  });

  it.each(OPERATIONS)('refuses other types for %s', async (operation) => {
    const types = ['text/plain', 'text/json', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/jsonp'];
    for (const type of [...types, 'application/problem+json', 'application', 'json', '*/*']) {
      const answer = await postRaw(operation, JSON.stringify(GOOD[operation]()), { 'Content-Type': type });
      expectError(answer, 415, 'Unsupported media type.');
    }
    const untyped = await send('POST', `${BASE}/${operation}`, { body: bytes(JSON.stringify(GOOD[operation]())) });
    expectError(untyped, 415, 'Unsupported media type.');
  });

  const CODINGS = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, GZIP: gzipSync, identity: (body: Buffer) => body };
  const codings = Object.entries(CODINGS);

  it.each(codings)('takes a body in %s, up to the limit once decoded', async (coding, encode) => {
    const headers = { 'Content-Encoding': coding };
    expect((await postRaw('create-role', encode(padded(MAX_JSON)), headers)).status).toBe(201);
    expectError(await postRaw('create-role', encode(padded(MAX_JSON + 1)), headers), 413, 'Payload too large.');
  });

  it.each(OPERATIONS)('takes a compressed body for %s', async (operation) => {
    const body = gzipSync(JSON.stringify(GOOD[operation]()));
    expect((await postRaw(operation, body, { 'Content-Encoding': 'gzip' })).status).toBeLessThan(300);
  });

  it.each(codings.slice(0, 3))('refuses a bomb in %s', async (coding, encode) => {
    const answer = await postRaw('create-role', encode(Buffer.alloc(32 * 1024 * 1024, ' ')), { 'Content-Encoding': coding });
    expectError(answer, 413, 'Payload too large.');
  });

  it.each(codings.slice(0, 3))('refuses what is not in %s, or not whole', async (coding, encode) => {
    const headers = { 'Content-Encoding': coding };
    expectError(await postRaw('create-role', json(), headers), 400, REFUSAL['create-role']);
    expectError(await postRaw('create-role', encode(padded(500)).subarray(0, -9), headers), 400, REFUSAL['create-role']);
    expectError(await postRaw('create-role', encode(Buffer.from('nope')), headers), 400, REFUSAL['create-role']);
  });

  it.each(['zstd', 'compress', 'gzip, br', 'x', 'constructor'])('refuses the coding %s', async (coding) => {
    expectError(await postRaw('create-role', json(), { 'Content-Encoding': coding }), 415, 'Unsupported media type.');
  });

  const head = (...headers: string[]): string =>
    [`POST ${BASE}/create-role HTTP/1.1`, 'Host: x', `Authorization: Bearer ${token}`, 'Content-Type: application/json', ...headers, '', ''].join('\r\n');

  it.each<[string, () => string]>([
    ['by its declared length alone', () => head(`Content-Length: ${MAX_JSON + 1}`)],
    ['by a length past all', () => head('Content-Length: 99999999999')],
    ['before it says 100 Continue', () => head(`Content-Length: ${MAX_JSON + 1}`, 'Expect: 100-continue')],
    ['in chunks, once it is over', () => `${head('Transfer-Encoding: chunked')}${(MAX_JSON + 1).toString(16)}\r\n${' '.repeat(MAX_JSON + 1)}`],
  ])('refuses a body that is too long %s', async (_how, request) => {
    const { status, body } = await exchange(service.port, request());
    expect({ status, body }).toEqual({ status: 413, body: '{"error":"Payload too large."}' });
  });

  it('takes a body that waits for 100 Continue', async () => {
    const body = json();
    const answer = await exchange(service.port, head(`Content-Length: ${body.length}`, 'Expect: 100-continue', 'Connection: close'), body);
    expect(answer.status).toBe(201);
  });
});

const addresses = (function* () {
  for (let index = 0; ; index++) yield `10.0.${index >> 8}.${index & 255}`;
})();
const nextAddress = (): string => addresses.next().value;

describe('refusals in their order', () => {
  let limited: RunningService;
  const exhausted = '192.0.2.1';
  beforeAll(async () => {
    limited = await startService({ RATE_LIMIT_PER_MINUTE: '1', TRUST_PROXY: '1', MAX_JSON_BYTES: '100', REQUEST_IDLE_TIMEOUT_MS: '2000' });
    await fetch(`${limited.url}${BASE}/roles`, { headers: { 'X-Forwarded-For': exhausted } });
  });
  afterAll(() => limited.close());

  /** What each status takes, and its text. */
  const REFUSALS = [
    [404, 'Not found.'],
    [429, 'Too many requests.'],
    [403, 'Unauthorized.'],
    [413, 'Payload too large.'],
    [415, 'Unsupported media type.'],
    [400, ''],
  ] as const;
  const statuses = REFUSALS.map(([status]) => status);
  const subsets = Array.from({ length: 63 }, (_, index) => statuses.filter((_status, bit) => ((index + 1) >> bit) & 1));

  it.each(OPERATIONS.flatMap((operation) => subsets.map((subset) => [operation, subset] as const)))('%s: of %j the first', async (operation, subset) => {
    const has = (status: number): boolean => subset.includes(status as never);
    const body = has(400) ? '{' : '{}';
    const request = [
      `POST ${BASE}/${operation}${has(404) ? 's' : ''} HTTP/1.1`,
      'Host: x',
      `X-Forwarded-For: ${has(429) ? exhausted : nextAddress()}`,
      `Authorization: Bearer ${has(403) ? 'x' : ''}${await limited.adminToken()}`,
      `Content-Type: ${has(415) ? 'text/plain' : 'application/json'}`,
      `Content-Length: ${has(413) ? 101 : body.length}`,
      '',
      body,
    ].join('\r\n');
    const answer = await exchange(limited.port, request);
    const [status, text] = REFUSALS.find(([candidate]) => has(candidate)) ?? REFUSALS[5];
    expect({ status: answer.status, body: answer.body }).toEqual({ status, body: JSON.stringify({ error: text || REFUSAL[operation] }) });
    expect(answer.headers['x-request-id']).toBeDefined();
    expect(answer.headers['retry-after'] !== undefined).toBe(status === 429);
  });
});

describe('RATE_LIMIT_PER_MINUTE', () => {
  const LIMIT = 3;
  const UPLOAD = '/ingestNowcastLoadData/upload_nowcast?customer_id=a&filename=b&manufacturer=c';
  const statusOf = async (url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<number> => {
    const answer = await fetch(url, { method, headers });
    const text = await answer.text();
    if (answer.status === 429) {
      expect(text).toBe('{"error":"Too many requests."}');
      expect(answer.headers.get('retry-after')).toMatch(/^([1-9]|[1-5]\d|60)$/);
      expect(answer.headers.get('x-request-id')).not.toBeNull();
    }
    return answer.status;
  };

  async function withLimit(trustProxy: string, work: (limited: RunningService) => Promise<void>): Promise<void> {
    const limited = await startService({ RATE_LIMIT_PER_MINUTE: String(LIMIT), TRUST_PROXY: trustProxy });
    try {
      await work(limited);
    } finally {
      await limited.close();
    }
  }

  it("counts an address's requests over all operations, and nobody else's", () =>
    withLimit('1', async ({ url }) => {
      const from = { 'X-Forwarded-For': '10.1.1.1' };
      expect(await statusOf(`${url}${BASE}/roles`, from)).toBe(403);
      expect(await statusOf(`${url}${BASE}/create-user`, from, 'POST')).toBe(403);
      expect(await statusOf(url + UPLOAD, from, 'POST')).toBe(200);
      expect(await statusOf(`${url}${BASE}/users`, from)).toBe(429);
      expect(await statusOf(url + UPLOAD, from, 'POST')).toBe(429);
      expect(await statusOf(`${url}${BASE}/nothing`, from)).toBe(404);
      expect(await statusOf(url + UPLOAD, { 'X-Forwarded-For': '10.1.1.2' }, 'POST')).toBe(200);
    }));

  it("counts a token's requests from whatever address, and no other token's", () =>
    withLimit('1', async (limited) => {
      const ask = async (bearer: string, scheme = 'Bearer '): Promise<number> =>
        statusOf(`${limited.url}${BASE}/roles`, { Authorization: `${scheme}${bearer}`, 'X-Forwarded-For': nextAddress() });
      const bearer = await limited.adminToken();
      for (const status of [200, 200, 200, 429, 429]) expect(await ask(bearer)).toBe(status);
      for (const scheme of ['bearer ', 'BEARER ', 'Bearer   ']) expect(await ask(bearer, scheme)).toBe(429);
      expect(await ask(await limited.adminToken())).toBe(200);
    }));

  it("doesn't count /health and /metrics", () =>
    withLimit('0', async ({ url }) => {
      const free = ['/health/live', '/health/ready', '/metrics', '/health/live'];
      for (const path of free) expect(await statusOf(url + path)).toBe(200);
      for (const status of [200, 200, 200, 429]) expect(await statusOf(url + UPLOAD, {}, 'POST')).toBe(status);
      for (const path of free) expect(await statusOf(url + path)).toBe(200);
    }));

  it.each([
    ['0', 'nobody about the address', () => nextAddress(), true],
    ['1', 'the last proxy about the address', () => `${nextAddress()}, 10.9.9.9`, true],
    ['1', 'the last proxy about different addresses', () => `10.9.9.9, ${nextAddress()}`, false],
    ['2', 'the last two proxies about the address', () => `${nextAddress()}, 10.9.9.9, ${nextAddress()}`, true],
    ['2', 'the last two proxies about different addresses', () => `10.9.9.9, ${nextAddress()}, 10.9.9.8`, false],
  ])('with TRUST_PROXY=%s believes %s', (trustProxy, _what, forwarded, limitedTogether) =>
    withLimit(trustProxy, async ({ url }) => {
      const ask = (): Promise<number> => statusOf(url + UPLOAD, { 'X-Forwarded-For': forwarded() }, 'POST');
      for (let index = 0; index < LIMIT; index++) expect(await ask()).toBe(200);
      expect(await ask()).toBe(limitedTogether ? 429 : 200);
    }));

  it('is off by default', async () => {
    for (let index = 0; index < 50; index++) expect(await statusOf(service.url + UPLOAD, {}, 'POST')).toBe(200);
  });
});
