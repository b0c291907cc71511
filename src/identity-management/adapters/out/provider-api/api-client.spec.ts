import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { ServiceError } from '../../../../common/service-error.js';
import { ProviderError, ProviderUnavailable } from '../../../domain/errors.js';
import { ApiClient, type ApiRequest } from './api-client.js';
import { mayBeDone, OutcomeUnknown } from './api-failure.js';
import { Operation } from './operation.js';

const operation = new Operation();
const PATIENCE = { timeout: 20_000 };

const open = (url: string, tokenUrl = `${url}/token`) =>
  new ApiClient({ provider: 'A provider', url, token: { url: tokenUrl, grant: { grant_type: 'client_credentials' } } });

describe('a client of an API', () => {
  let server: Server;
  let url: string;
  let api: ApiClient;
  let connections: number;
  let tokens: number;
  /** The lifetime of each issued token, in seconds. */
  let tokenLife: number;
  /** The Authorization headers of all calls, oldest first. */
  let used: (string | undefined)[];
  let isRefused: (token: string) => boolean;

  function serve({ url: path, headers }: IncomingMessage, response: ServerResponse): void {
    response.setHeader('content-type', 'application/json');
    if (path === '/token') {
      response.end(JSON.stringify({ access_token: String(++tokens), expires_in: tokenLife }));
      return;
    }
    used.push(headers.authorization);
    if (isRefused(headers.authorization?.slice('Bearer '.length) ?? '')) response.statusCode = 401;
    response.end('{}');
  }

  beforeEach(async () => {
    [connections, tokens, tokenLife, used, isRefused] = [0, 0, 300, [], () => false];
    server = createServer(serve).on('connection', () => connections++);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    api = open(url);
  });
  afterEach(async () => {
    vi.useRealTimers();
    await api.close();
    server.close();
    server.closeAllConnections();
  });

  const get = () => api.call({ method: 'GET', path: '/items', operation });

  it.each<[string, (response: ServerResponse) => unknown]>([
    ['request fails', (response) => response.writeHead(500).end()],
    ['request is aborted', (response) => response.destroy()],
    ['is not JSON', (response) => response.end('<html>')],
  ])('reports that a call had no effect when its token %s', async (_, answer) => {
    server.removeAllListeners('request').on('request', (_request, response: ServerResponse) => { answer(response); });
    const failure: unknown = await api.call({ method: 'POST', path: '/items', operation }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ServiceError);
    expect(mayBeDone(failure)).toBe(false);
  });

  it('reuses its connections for successive calls of any kind', async () => {
    for (let count = 0; count < 20; count++) {
      await get();
      await api.call({ method: 'POST', path: '/items', body: { count }, operation });
      await api.call({ method: 'DELETE', path: '/items', operation });
    }
    expect(used).toHaveLength(60);
    // The client may open a second connection, because the first may still be busy when the next call is made.
    expect(connections).toBeLessThanOrEqual(2);
  });

  it('opens at most 128 connections for any number of simultaneous calls, and keeps them', async () => {
    for (let round = 0; round < 3; round++) await Promise.all(Array.from({ length: 400 }, get));
    expect(used).toHaveLength(1_200);
    expect(connections).toBeLessThanOrEqual(128);
  });

  it('ends an abandoned call that is waiting for a connection', async () => {
    await get();
    let taken = 0;
    server.removeAllListeners('request').on('request', () => taken++);
    const hanging = Array.from({ length: 128 }, get);
    await vi.waitFor(() => { expect(taken).toBe(128); }, PATIENCE);
    const leaving = new AbortController();
    const call = api.call({ method: 'GET', path: '/items', operation: new Operation(leaving.signal) });
    // After one iteration of the event loop, the call has its token and waits for a connection.
    await nextIteration();
    leaving.abort();
    const ended = (which: string) => (error: unknown) => [which, error];
    const first = await Promise.race([call.catch(ended('the one')), Promise.race(hanging).catch(ended('the others'))]);
    expect(first).toEqual(['the one', expect.any(ProviderUnavailable)]);
    await api.close();
    await Promise.allSettled(hanging);
  });

  it('keeps the connections that abandoned calls were waiting for, and reports that these calls had no effect', async () => {
    await get();
    const taken: ServerResponse[] = [];
    server.removeAllListeners('request').on('request', (_request, response: ServerResponse) => taken.push(response.setHeader('content-type', 'application/json')));
    const busy = Array.from({ length: 128 }, get);
    await vi.waitFor(() => { expect(taken).toHaveLength(128); }, PATIENCE);
    const leaving = new AbortController();
    const calls = Array.from({ length: 50 }, () => api.call({ method: 'POST', path: '/items', operation: new Operation(leaving.signal) }).catch(mayBeDone));
    await nextIteration();
    leaving.abort();
    expect(new Set(await Promise.all(calls))).toEqual(new Set([false]));
    const before = connections;
    for (const response of taken) response.end('{}');
    await Promise.all(busy);
    server.removeAllListeners('request').on('request', serve);
    await Promise.all(Array.from({ length: 128 }, get));
    expect(taken).toHaveLength(128);
    expect(connections).toBe(before);
  });

  it.each<[string, number, boolean, () => unknown, (response: ServerResponse) => unknown]>([
    ['ten seconds for an answer to a call that may have had an effect', 10, true, () => undefined, () => undefined],
    ['ten seconds for the end of an answer', 10, true, () => undefined, (response) => response.write('{')],
    ['five seconds for a token, without which a call has no effect', 5, false, () => { api.token.discard('1', 'outdated'); }, () => undefined],
  ])('waits %s, and no longer, even if its caller does', async (_, seconds, isDone, prepare, answer) => {
    // Opens the connection before timers are faked, because the connection's own timers must be real.
    await get();
    prepare();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let isOver = false;
    const call = api
      .call({ method: 'POST', path: '/items', operation })
      .catch((error: unknown) => error)
      .finally(() => (isOver = true));
    await new Promise<void>((resolve) => {
      server.removeAllListeners('request').on('request', (_request, response: ServerResponse) => {
        answer(response);
        resolve();
      });
    });
    await vi.advanceTimersByTimeAsync(seconds * 1000 - 1);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    const failure = await call;
    expect(failure).toBeInstanceOf(ProviderUnavailable);
    expect(mayBeDone(failure)).toBe(isDone);
  });

  it.each<[string, Pick<ApiRequest, 'method' | 'repeatable'>, number]>([
    ['GET', { method: 'GET' }, 2],
    ['POST', { method: 'POST' }, 1],
    ['DELETE', { method: 'DELETE' }, 1],
    ['PUT that is repeatable', { method: 'PUT', repeatable: true }, 2],
  ])('repeats a call once at most when the connection breaks, and only if that is safe: a %s', async (_, request, times) => {
    await get();
    let asked = 0;
    server.removeAllListeners('request').on('request', ({ socket }: IncomingMessage) => {
      asked++;
      socket.destroy();
    });
    await expect(api.call({ ...request, path: '/items', operation })).rejects.toThrow(OutcomeUnknown);
    expect(asked).toBe(times);
  });

  it.each<[string, (response: ServerResponse, leave: () => void) => unknown]>([
    ['is cut off', (response) => response.writeHead(200, { 'content-length': 9 }).write('{', () => response.destroy())],
    ['never arrives before the call is abandoned', (_response, leave) => { leave(); }],
    ['begins but does not end before the call is abandoned', (response, leave) => response.write('{', leave)],
    ['is a page that arrives in many pieces', (response) => response.writeHead(500).end('<!DOCTYPE html>'.padEnd(256 * 1024))],
  ])('has all its connections available after as many calls whose answer %s', async (_, answer) => {
    await get();
    const leaving = new AbortController();
    let asked = 0;
    const leave = (): void => {
      if (++asked === 128) leaving.abort();
    };
    server.removeAllListeners('request').on('request', (_request, response: ServerResponse) => { answer(response, leave); });
    const calls = Array.from({ length: 128 }, () => api.call({ method: 'POST', path: '/items', operation: new Operation(leaving.signal) }));
    expect(new Set((await Promise.allSettled(calls)).map(({ status }) => status))).toEqual(new Set(['rejected']));

    const waiting: ServerResponse[] = [];
    server.removeAllListeners('request').on('request', (_request, response: ServerResponse) => {
      waiting.push(response.setHeader('content-type', 'application/json'));
      if (waiting.length === 128) for (const one of waiting) one.end('{}');
    });
    await Promise.all(Array.from({ length: 128 }, get));
    expect(waiting).toHaveLength(128);
  });

  it('reports that a call may have had an effect when its repetition cannot connect', async () => {
    await get();
    server.removeAllListeners('request').on('request', (_request, response: ServerResponse) => {
      server.close();
      response.destroy();
    });
    const failure: unknown = await api.call({ method: 'PATCH', path: '/items', repeatable: true, operation }).catch((error: unknown) => error);
    expect(mayBeDone(failure)).toBe(true);
  });

  it('parses a repeated answer only if it has changed, whatever came in between', async () => {
    const answers: [number, string][] = [[200, '["a"]'], [200, '["a"]'], [500, '["a"]'], [404, '["a"]'], [200, '["b"'], [200, '[1]'], [200, '["a"]'], [200, '["b"]'], [200, '["a"]']];
    server.removeAllListeners('request').on('request', (request, response: ServerResponse) => {
      if (request.url === '/token') {
        serve(request, response);
        return;
      }
      const [status, text] = answers.shift() ?? [200, '[]'];
      response.writeHead(status, { 'content-type': 'application/json' }).end(text);
    });
    const again = () => api.getAgain('/items', z.array(z.string()), operation).catch(() => undefined);
    const results: unknown[] = [];
    while (answers.length > 0) results.push(await again());
    const [first] = results;
    expect(results).toEqual([['a'], ['a'], undefined, undefined, undefined, undefined, ['a'], ['b'], ['a']]);
    expect([1, 6, 8].map((index) => results[index] === first)).toEqual([true, true, false]);
  });

  it('requests one token for all simultaneous calls', async () => {
    await Promise.all(Array.from({ length: 100 }, get));
    expect({ tokens, used: new Set(used) }).toEqual({ tokens: 1, used: new Set(['Bearer 1']) });
  });

  it('requests one new token every ten seconds while all are refused, and works when they are accepted again', async () => {
    // Fakes only the clock, not the timers, because a call needs real timers.
    vi.useFakeTimers({ toFake: ['performance'] });
    await get();
    isRefused = () => true;
    for (let call = 0; call < 3; call++) await expect(get()).rejects.toThrow(ProviderError);
    vi.advanceTimersByTime(10_000);
    for (let call = 0; call < 3; call++) await expect(get()).rejects.toThrow(ProviderError);
    expect(used.join()).toBe('Bearer 1,Bearer 1,Bearer 2,Bearer 2,Bearer 2,Bearer 2,Bearer 3,Bearer 3,Bearer 3');
    isRefused = () => false;
    await get();
    expect({ tokens, last: used.at(-1) }).toEqual({ tokens: 3, last: 'Bearer 3' });
  });

  it('requests a new token each time that a previously accepted one is refused', async () => {
    for (let time = 1; time <= 5; time++) {
      await get();
      isRefused = (token) => Number(token) <= time;
    }
    await get();
    expect(tokens).toBe(6);
  });

  it.each([
    // Each row: a token's lifetime, the last second at which the token is used, and the first at which it isn't.
    [300, 269, 270],
    [86_400, 86_369, 86_370],
    [40, 19, 20],
  ])('uses a token with a lifetime of %i s until %i s, and requests one new token at %i s', async (life, last, renewed) => {
    // Fakes only the clock, not the timers, because a call needs real timers.
    vi.useFakeTimers({ toFake: ['performance'] });
    tokenLife = life;
    await get();
    vi.advanceTimersByTime(last * 1000);
    await get();
    vi.advanceTimersByTime((renewed - last) * 1000);
    await Promise.all(Array.from({ length: 20 }, get));
    expect({ tokens, used }).toEqual({ tokens: 2, used: ['Bearer 1', 'Bearer 1', ...Array<string>(20).fill('Bearer 2')] });
  });
});

/** Starts a server that accepts no connections any more, because its process is stopped and its backlog is full. */
async function startUnreachable() {
  const program = `
    const server = require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => console.log(server.address().port));`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  child.kill('SIGSTOP');
  const port = Number(line);
  const waiting: Socket[] = [];
  // With a backlog of 1, the operating system accepts two connections for the stopped process.
  for (let count = 0; count < 2; count++) {
    const socket = connect(port, '127.0.0.1');
    waiting.push(socket);
    await once(socket, 'connect');
  }
  const stop = async () => {
    for (const socket of waiting) socket.destroy();
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  return { url: `http://127.0.0.1:${port}`, stop };
}

describe.runIf(process.platform === 'linux')('a client of an API whose address does not answer', () => {
  const issuer = createServer((_, response) => response.end('{"access_token":"1","expires_in":300}'));
  let unreachable: Awaited<ReturnType<typeof startUnreachable>>;
  let api: ApiClient;

  beforeEach(async () => {
    await once(issuer.listen(0, '127.0.0.1'), 'listening');
    unreachable = await startUnreachable();
    api = open(unreachable.url, `http://127.0.0.1:${(issuer.address() as AddressInfo).port}`);
  });
  afterEach(async () => {
    await unreachable.stop();
    await api.close();
    issuer.close();
    issuer.closeAllConnections();
  });

  it('gives up before the time for the answer is over, and reports that the call had no effect', async () => {
    const error: unknown = await api.call({ method: 'POST', path: '/items', body: {}, operation }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ProviderUnavailable);
    // This shows that the client gave up on connecting. After waiting for an answer, the error would be an
    // `OutcomeUnknown`.
    expect(error).not.toBeInstanceOf(OutcomeUnknown);
  });
});
