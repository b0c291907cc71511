import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Auth0Fault, type Auth0StandIn, HTML, startAuth0StandIn, TOO_MANY_REQUESTS } from './index.js';

const START = Date.UTC(2026, 0, 1);

describe('The stand-in for Auth0: faults', () => {
  let standIn: Auth0StandIn;
  let now: number;
  let token: string;
  beforeEach(async () => {
    now = START;
    standIn = await startAuth0StandIn({ now: () => now });
    token = await standIn.issueManagementToken();
  });
  afterEach(() => standIn.stop());

  const call = (operation: string, body?: unknown): Promise<Response> => {
    const [method = '', path = ''] = operation.split(' ');
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    return fetch(`${standIn.domain}/api/v2${path}`, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
  };
  const createRole = (): Promise<Response> => call('POST /roles', { name: 'Operator' });
  const roles = async (): Promise<unknown[]> => (await (await call('GET /roles')).json()) as unknown[];
  /**
   * Describes an answer as the client sees it: the status, and whether the body is JSON, isn't JSON or is cut off; or
   * `no answer`.
   */
  const outcome = async (asked: Promise<Response>): Promise<string> => {
    const response = await asked.catch(() => undefined);
    if (!response) return 'no answer';
    const text = await response.text().catch(() => undefined);
    if (text === undefined) return `${response.status} cut`;
    try {
      JSON.parse(text);
    } catch {
      return `${response.status} no JSON`;
    }
    return `${response.status} JSON`;
  };

  it.each<[Auth0Fault, string, number]>([
    [{ kind: 'answer', status: 503 }, '503 no JSON', 0],
    [{ kind: 'answer', status: 502, body: HTML }, '502 no JSON', 0],
    [{ kind: 'answer', status: 429, body: TOO_MANY_REQUESTS, headers: { 'retry-after': '1' } }, '429 JSON', 0],
    [{ kind: 'answer', status: 200, body: { surprise: true } }, '200 JSON', 0],
    [{ kind: 'reset' }, 'no answer', 0],
    [{ kind: 'lost-answer' }, 'no answer', 1],
    [{ kind: 'cut-body' }, '200 cut', 1],
    [{ kind: 'truncated-json' }, '200 no JSON', 1],
    [{ kind: 'delay', ms: 1 }, '200 JSON', 1],
  ])('given the fault %j, the client sees "%s" and the number of roles created is %i', async (fault, seen, made) => {
    standIn.fail('POST /api/v2/roles', fault);
    expect(await outcome(createRole())).toBe(seen);
    expect(await roles()).toHaveLength(made);
    expect(standIn.count('POST /api/v2/roles')).toBe(1);
  });

  it.each<[Auth0Fault, number]>([
    [{ kind: 'silence' }, 0],
    [{ kind: 'silence-after' }, 1],
  ])('given the fault %j, the client waits until recovery and the number of roles created is %i', async (fault, made) => {
    standIn.fail('POST /api/v2/roles', fault);
    const asked = outcome(createRole());
    await vi.waitFor(() => { expect(standIn.count('POST /api/v2/roles')).toBe(1); });
    expect(await Promise.race([asked, roles()])).toHaveLength(made);
    standIn.recover();
    expect(await asked).toBe('no answer');
    expect(await roles()).toHaveLength(made);
  });

  it('a fault hits only the named operation, after `skip` requests and for `times` requests', async () => {
    standIn.fail('GET /api/v2/roles/{id}', { kind: 'answer', status: 500 }, { times: 2, skip: 1 });
    const statuses = async (operation: string) => [await call(operation), await call(operation), await call(operation), await call(operation)].map(({ status }) => status);
    expect(await statuses('GET /roles')).toEqual([200, 200, 200, 200]);
    expect(await statuses('GET /roles/rol_1/permissions')).toEqual([404, 404, 404, 404]);
    expect(await statuses('GET /roles/rol_1')).toEqual([404, 500, 500, 404]);
  });

  it('a fault on any path hits every request until recovery', async () => {
    standIn.fail(/./, { kind: 'answer', status: 500 }, { times: Infinity });
    for (const operation of ['GET /roles', 'GET /users']) expect((await call(operation)).status).toBe(500);
    standIn.recover();
    expect((await call('GET /roles')).status).toBe(200);
  });

  it('does not answer while it is stopped, and keeps its data until it starts again', async () => {
    await createRole();
    await standIn.stop();
    expect(await outcome(call('GET /roles'))).toBe('no answer');
    await standIn.start();
    expect(await roles()).toHaveLength(1);
  });

  it('records each request and its time', async () => {
    now = START + 5;
    await call('GET /users?page=0&q=x');
    expect(standIn.requests).toEqual([{ method: 'GET', path: '/api/v2/users', query: 'page=0&q=x', at: START + 5 }]);
  });

  it('survives input that is not HTTP', async () => {
    const socket = connect(Number(new URL(standIn.domain).port), '127.0.0.1');
    socket.end('nonsense\r\n\r\n').resume();
    await once(socket, 'close');
    expect((await call('GET /roles')).status).toBe(200);
  });

  describe('a rate limit', () => {
    const limits = async () => {
      const { status, headers } = await call('GET /roles');
      return [status, ...['limit', 'remaining', 'reset'].map((name) => Number(headers.get(`x-ratelimit-${name}`)))];
    };

    it('allows a burst, then calls at its rate, and reports when the bucket will be full', async () => {
      standIn.settings.rateLimit = { burst: 3, perSecond: 2 };
      const second = START / 1000;
      expect(await limits()).toEqual([200, 3, 2, second + 1]);
      expect(await limits()).toEqual([200, 3, 1, second + 1]);
      expect(await limits()).toEqual([200, 3, 0, second + 2]);
      expect(await limits()).toEqual([429, 3, 0, second + 2]);
      now += 499;
      expect((await limits())[0]).toBe(429);
      now += 1;
      expect((await limits())[0]).toBe(200);
      expect((await limits())[0]).toBe(429);
      now += 60_000;
      expect(await limits()).toEqual([200, 3, 2, second + 61]);
    });

    it("refuses a call with the API's 429, and changes nothing", async () => {
      standIn.settings.rateLimit = { burst: 1, perSecond: 1 };
      expect((await call('GET /roles')).status).toBe(200);
      const refused = await createRole();
      expect([refused.status, await refused.json()]).toEqual([429, TOO_MANY_REQUESTS]);
      standIn.settings.rateLimit = undefined;
      expect(await roles()).toEqual([]);
    });

    it('is off by default, and never applies to the key set', async () => {
      const { headers } = await call('GET /roles');
      expect([...headers.keys()].filter((name) => name.startsWith('x-ratelimit'))).toEqual([]);
      standIn.settings.rateLimit = { burst: 1, perSecond: 1 };
      const keys = await Promise.all(Array.from({ length: 5 }, () => fetch(`${standIn.domain}/.well-known/jwks.json`)));
      expect(keys.map(({ status }) => status)).toEqual(Array(5).fill(200));
    });
  });
});
