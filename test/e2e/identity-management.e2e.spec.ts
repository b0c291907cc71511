import { randomBytes } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EmbeddedIdentityProvider } from '../../src/identity-management/adapters/out/embedded/embedded.identity-provider.adapter.js';
import { TokenIssuer } from '../../src/identity-management/adapters/out/embedded/token-issuer.js';
import { identityOperations } from '../support/identity-operations.js';
import { BASE, bytes, expectAnswer, expectError, identityRequests, JSON_TYPE, OPERATIONS, REFUSAL } from '../support/identity-requests.js';
import { exchange } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

const MAX_JSON = 32_768;
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.source;

let service: RunningService;
let token: string;
const target = { url: '', token: '' };
const { makeKnown, send, postRaw, post, GOOD } = identityRequests(target);

beforeAll(async () => {
  service = await startService({ MAX_JSON_BYTES: String(MAX_JSON), REQUEST_IDLE_TIMEOUT_MS: '2000' });
  token = await service.adminToken();
  Object.assign(target, { url: service.url, token });
  await makeKnown();
});
afterAll(() => service.close());

let embedded: RunningService;
identityOperations('the embedded provider', {
  userId: `embedded\\|${UUID}`,
  roleId: 'role_[0-9a-f]{32}',
  userPrefix: 'embedded|',
  rolePrefix: 'role_',
  unknownRoleId: `role_${'0'.repeat(32)}`,
  triesAllCharacters: true,
  start: async () => {
    embedded = await startService();
    return { url: embedded.url, token: await embedded.adminToken() };
  },
  stop: () => embedded.close(),
  permissionsOf: (userId) => embedded.app.get(EmbeddedIdentityProvider, { strict: false }).permissionsOf(userId),
  tokenOf: (userId) => embedded.app.get(TokenIssuer, { strict: false }).userToken(userId),
});

it.each(['roles', 'users'])('GET /%s returns an empty list from an empty provider', async (member) => {
  const empty = await startService();
  const headers = { Authorization: `Bearer ${await empty.adminToken()}` };
  expect(await (await fetch(`${empty.url}${BASE}/${member}`, { headers })).text()).toBe(`{"${member}":[]}`);
  await empty.close();
});

const BAD_BODIES: [what: string, body: string | Buffer][] = [
  ['empty', ''],
  ['blank', ' '],
  ['not JSON', 'role_name=x'],
  ['truncated', '{"user_id":"a"'],
  ['followed by more', '{}{}'],
  ['not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
  ['an empty object', '{}'],
  ['an array', '[]'],
  ['an array with an object', '[{}]'],
  ['null', 'null'],
  ['true', 'true'],
  ['a number', '1'],
  ['a string', '"{}"'],
  ['deeply nested', `{"user_id":${'['.repeat(15_000)}${']'.repeat(15_000)}}`],
];
/** The bodies that are enough for the other operations, because all read them in the same way. */
const A_FEW = ['not JSON', 'an empty object', 'an array'];

describe.each(OPERATIONS)('the body of POST /%s', (operation) => {
  it.each(BAD_BODIES.filter(([what]) => operation === 'assign-role' || A_FEW.includes(what)))('is rejected if it is %s', async (_what, body) => {
    expectError(await postRaw(operation, body), 400, REFUSAL[operation]);
  });

  it('is rejected if its valid members are in an array', async () => {
    expectError(await post(operation, [GOOD[operation]()]), 400, REFUSAL[operation]);
  });

  it('is rejected if its valid members are in __proto__', async () => {
    expectError(await postRaw(operation, `{"__proto__":${JSON.stringify(GOOD[operation]())}}`), 400, REFUSAL[operation]);
  });

  it('is rejected if it is absent, with and without a content type', async () => {
    const none = await send('POST', `${BASE}/${operation}`);
    const typed = await send('POST', `${BASE}/${operation}`, { headers: JSON_TYPE });
    expectError(none, 400, REFUSAL[operation]);
    expectError(typed, 400, REFUSAL[operation]);
  });

  it('can have unknown members', async () => {
    const more = '"more":{"a":[{}]},"constructor":1,"__proto__":{"name":7},"id":null,';
    const { status } = await postRaw(operation, JSON.stringify(GOOD[operation]()).replace('{', `{${more}`));
    expect(status).toBe(operation.startsWith('create') ? 201 : 200);
  });
});

describe('paths and methods', () => {
  it.each(['?', '?x=1&x=2', '?%', '?roles[]=1'])('GET is the same with %s appended', async (query) => {
    for (const member of ['roles', 'users']) {
      const plain = await send('GET', `${BASE}/${member}`);
      expectAnswer(await send('GET', `${BASE}/${member}${query}`), 200, plain.body);
    }
  });

  it.each(['/', '//', '/x', '%2F', ';x', '.json', '%20'])('GET is unknown with %s appended', async (rest) => {
    expectError(await send('GET', `${BASE}/roles${rest}`), 404, 'Not found.');
    expectError(await send('GET', `${BASE}/users${rest}`), 404, 'Not found.');
  });

  it.each(['/roles', BASE, `${BASE}/`, `${BASE}/nothing`, `${BASE}//roles`, `${BASE}/Roles`, `${BASE.toUpperCase()}/roles`, `/x${BASE}/roles`])(
    'GET %s is unknown',
    async (path) => {
      expectError(await send('GET', path), 404, 'Not found.');
    },
  );

  it('GET ignores a body', async () => {
    const request = `GET ${BASE}/roles HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n{`;
    expect((await exchange(service.port, request)).status).toBe(200);
  });

  it.each(['roles', 'users'])('HEAD is answered like GET /%s', async (member) => {
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
  /** The valid JSON body with blanks at its end, so that it has this many bytes. */
  const padded = (length: number): Buffer => Buffer.from(json().padEnd(length));

  it.each(['application/json', 'application/json; charset=utf-8', 'application/json;charset=UTF-8', 'Application/JSON'])('%s is accepted', async (type) => {
    expect((await postRaw('create-role', json(), { 'Content-Type': type })).status).toBe(201);
  });

  it.each(OPERATIONS)('%s rejects other content types', async (operation) => {
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

  it.each(codings)('a body encoded in %s is accepted up to the limit of its decoded length', async (coding, encode) => {
    const headers = { 'Content-Encoding': coding };
    expect((await postRaw('create-role', encode(padded(MAX_JSON)), headers)).status).toBe(201);
    expectError(await postRaw('create-role', encode(padded(MAX_JSON + 1)), headers), 413, 'Payload too large.');
  });

  it.each(OPERATIONS)('%s accepts a compressed body', async (operation) => {
    const body = gzipSync(JSON.stringify(GOOD[operation]()));
    expect((await postRaw(operation, body, { 'Content-Encoding': 'gzip' })).status).toBeLessThan(300);
  });

  it.each(codings.slice(0, 3))('a decompression bomb in %s is rejected', async (coding, encode) => {
    const answer = await postRaw('create-role', encode(Buffer.alloc(8 * 1024 * 1024, ' ')), { 'Content-Encoding': coding });
    expectError(answer, 413, 'Payload too large.');
  });

  it.each(codings.slice(0, 3))('a body that is not in %s, or truncated, is rejected', async (coding, encode) => {
    const headers = { 'Content-Encoding': coding };
    expectError(await postRaw('create-role', json(), headers), 400, REFUSAL['create-role']);
    expectError(await postRaw('create-role', encode(padded(500)).subarray(0, -9), headers), 400, REFUSAL['create-role']);
    expectError(await postRaw('create-role', encode(Buffer.from('nope')), headers), 400, REFUSAL['create-role']);
  });

  it.each(['zstd', 'compress', 'gzip, br', 'x', 'constructor', 'gzip\xa0', '\xa0identity'])('the coding %s is rejected', async (coding) => {
    expectError(await postRaw('create-role', json(), { 'Content-Encoding': coding }), 415, 'Unsupported media type.');
  });

  const head = (...headers: string[]): string =>
    [`POST ${BASE}/create-role HTTP/1.1`, 'Host: x', `Authorization: Bearer ${token}`, 'Content-Type: application/json', ...headers, '', ''].join('\r\n');

  it.each<[string, () => string]>([
    ['because of its declared length alone', () => head(`Content-Length: ${MAX_JSON + 1}`)],
    ['because of an extreme declared length', () => head('Content-Length: 99999999999')],
    ['before 100 Continue is sent', () => head(`Content-Length: ${MAX_JSON + 1}`, 'Expect: 100-continue')],
    ['in chunks, once it exceeds the limit', () => `${head('Transfer-Encoding: chunked')}${(MAX_JSON + 1).toString(16)}\r\n${' '.repeat(MAX_JSON + 1)}`],
  ])('too long a body is rejected %s', async (_how, request) => {
    const { status, body } = await exchange(service.port, request());
    expect({ status, body }).toEqual({ status: 413, body: '{"error":"Payload too large."}' });
  });

  it('a body that waits for 100 Continue is accepted', async () => {
    const body = json();
    const answer = await exchange(service.port, head(`Content-Length: ${body.length}`, 'Expect: 100-continue', 'Connection: close'), body);
    expect(answer.status).toBe(201);
  });
});

const addresses = (function* () {
  for (let index = 0; ; index++) yield `10.0.${index >> 8}.${index & 255}`;
})();
const nextAddress = (): string => addresses.next().value;

describe('the order of refusals', () => {
  let limited: RunningService;
  const exhausted = '192.0.2.1';
  beforeAll(async () => {
    limited = await startService({ RATE_LIMIT_PER_MINUTE: '1', TRUST_PROXY: '1', MAX_JSON_BYTES: '100', REQUEST_IDLE_TIMEOUT_MS: '2000' });
    await fetch(`${limited.url}${BASE}/roles`, { headers: { 'X-Forwarded-For': exhausted } });
  });
  afterAll(() => limited.close());

  /**
   * The service's refusals (status and error text) in the order in which it checks for them. A request with several
   * faults gets the first.
   */
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
  // The operations share the code that checks, so that one of them shows the order of any two refusals.
  const subsetsOf = (operation: string) => subsets.filter(({ length }) => operation === 'create-role' || length === 1 || length === statuses.length);

  it.each(OPERATIONS.flatMap((operation) => subsetsOf(operation).map((subset) => [operation, subset] as const)))('%s answers with the first of %j', async (operation, subset) => {
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
  let hosts = 0;
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

  it('counts the requests of one address over all operations, separately from other addresses', () =>
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

  it('counts the requests with one token from any address, separately from other tokens', () =>
    withLimit('1', async (limited) => {
      const ask = async (bearer: string, scheme = 'Bearer '): Promise<number> =>
        statusOf(`${limited.url}${BASE}/roles`, { Authorization: `${scheme}${bearer}`, 'X-Forwarded-For': nextAddress() });
      const bearer = await limited.adminToken();
      for (const status of [200, 200, 200, 429, 429]) expect(await ask(bearer)).toBe(status);
      for (const scheme of ['bearer ', 'BEARER ', 'Bearer   ']) expect(await ask(bearer, scheme)).toBe(429);
      expect(await ask(await limited.adminToken())).toBe(200);
    }));

  it('counts an ECDSA signature and its equivalent twin as one token', () =>
    withLimit('1', async (limited) => {
      const { r, s, twin } = { r: randomBytes(32), s: randomBytes(32), twin: randomBytes(32) };
      const ask = async (...signature: Buffer[]): Promise<number> =>
        statusOf(`${limited.url}${BASE}/roles`, {
          Authorization: `Bearer e30.e30.${Buffer.concat(signature).toString('base64url')}`,
          'X-Forwarded-For': nextAddress(),
        });
      for (const status of [403, 403, 403, 429]) expect(await ask(r, s)).toBe(status);
      expect(await ask(r, twin)).toBe(429);
      expect(await ask(twin, s)).toBe(403);
    }));

  it('counts the addresses of one IPv6 network as one', () =>
    withLimit('1', async ({ url }) => {
      const from = (address: string) => statusOf(`${url}${BASE}/roles`, { 'X-Forwarded-For': address });
      for (const status of [403, 403, 403, 429]) expect(await from(`2001:db8::${status}:${++hosts}`)).toBe(status);
      expect(await from('2001:db8:0:1::1')).toBe(403);
    }));

  it('does not count /health and /metrics', () =>
    withLimit('0', async ({ url }) => {
      const free = ['/health/live', '/health/ready', '/metrics', '/health/live'];
      for (const path of free) expect(await statusOf(url + path)).toBe(200);
      for (const status of [200, 200, 200, 429]) expect(await statusOf(url + UPLOAD, {}, 'POST')).toBe(status);
      for (const path of free) expect(await statusOf(url + path)).toBe(200);
    }));

  it.each([
    ['0', 'no proxy about the address', () => nextAddress(), true],
    ['1', 'the last proxy about the address', () => `${nextAddress()}, 10.9.9.9`, true],
    ['1', 'the last proxy about different addresses', () => `10.9.9.9, ${nextAddress()}`, false],
    ['2', 'the last two proxies about the address', () => `${nextAddress()}, 10.9.9.9, ${nextAddress()}`, true],
    ['2', 'the last two proxies about different addresses', () => `10.9.9.9, ${nextAddress()}, 10.9.9.8`, false],
  ])('trusts, with TRUST_PROXY=%s, %s', (trustProxy, _what, forwarded, limitedTogether) =>
    withLimit(trustProxy, async ({ url }) => {
      const ask = (): Promise<number> => statusOf(url + UPLOAD, { 'X-Forwarded-For': forwarded() }, 'POST');
      for (let index = 0; index < LIMIT; index++) expect(await ask()).toBe(200);
      expect(await ask()).toBe(limitedTogether ? 429 : 200);
    }));

  it('is off by default', async () => {
    for (let index = 0; index < 50; index++) expect(await statusOf(service.url + UPLOAD, {}, 'POST')).toBe(200);
  });
});
