import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
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
  /** Seconds that each token lives. */
  let tokenLife: number;
  /** What calls are authorized with, the oldest first. */
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
    ['fails', (response) => response.writeHead(500).end()],
    ['breaks off', (response) => response.destroy()],
    ['is no JSON', (response) => response.end('<html>')],
  ])('knows that nothing was done of a call whose token %s', async (_, answer) => {
    server.removeAllListeners('request').on('request', (_request, response: ServerResponse) => { answer(response); });
    const failure: unknown = await api.call({ method: 'POST', path: '/items', operation }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ServiceError);
    expect(mayBeDone(failure)).toBe(false);
  });

  it('uses its connections again for calls that come one after another, whatever they are', async () => {
    for (let count = 0; count < 20; count++) {
      await get();
      await api.call({ method: 'POST', path: '/items', body: { count }, operation });
      await api.call({ method: 'DELETE', path: '/items', operation });
    }
    expect(used).toHaveLength(60);
    // The first may not be free yet when the next call comes at once.
    expect(connections).toBeLessThanOrEqual(2);
  });

  it('has at most 128 connections, however many calls come at once, and keeps them', async () => {
    for (let round = 0; round < 3; round++) await Promise.all(Array.from({ length: 400 }, get));
    expect(used).toHaveLength(1_200);
    expect(connections).toBeLessThanOrEqual(128);
  });

  it('lets a call go that nobody waits for while it waits for a connection', async () => {
    await get();
    let taken = 0;
    server.removeAllListeners('request').on('request', () => taken++);
    const hanging = Array.from({ length: 128 }, get);
    await vi.waitFor(() => { expect(taken).toBe(128); }, PATIENCE);
    const leaving = new AbortController();
    const call = api.call({ method: 'GET', path: '/items', operation: new Operation(leaving.signal) });
    // It has its token by then, and stands in the line.
    await turn();
    leaving.abort();
    const ended = (which: string) => (error: unknown) => [which, error];
    const first = await Promise.race([call.catch(ended('the one')), Promise.race(hanging).catch(ended('the others'))]);
    expect(first).toEqual(['the one', expect.any(ProviderUnavailable)]);
    await api.close();
    await Promise.allSettled(hanging);
  });

  it('keeps the connections that those waited for who have left, and knows that nothing of theirs was done', async () => {
    await get();
    const taken: ServerResponse[] = [];
    server.removeAllListeners('request').on('request', (_request, response: ServerResponse) => taken.push(response.setHeader('content-type', 'application/json')));
    const busy = Array.from({ length: 128 }, get);
    await vi.waitFor(() => { expect(taken).toHaveLength(128); }, PATIENCE);
    const leaving = new AbortController();
    const calls = Array.from({ length: 50 }, () => api.call({ method: 'POST', path: '/items', operation: new Operation(leaving.signal) }).catch(mayBeDone));
    await turn();
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
    ['ten seconds for an answer, of which it knows that it may have been done', 10, true, () => undefined, () => undefined],
    ['ten seconds for the end of an answer', 10, true, () => undefined, (response) => response.write('{')],
    ['five seconds for a token, without which it knows that nothing was done', 5, false, () => { api.token.discard('1', 'outdated'); }, () => undefined],
  ])('waits %s, and no longer, though its caller does', async (_, seconds, isDone, prepare, answer) => {
    // The connection is there, and so are its timers.
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
    ['PUT that does no harm twice', { method: 'PUT', repeatable: true }, 2],
  ])('asks once more at most when the connection breaks, where that does no harm: a %s', async (_, request, times) => {
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
    ['breaks off', (response) => response.writeHead(200, { 'content-length': 9 }).write('{', () => response.destroy())],
    ['says nothing, until nobody waits', (_response, leave) => { leave(); }],
    ['begins and does not end, until nobody waits', (response, leave) => response.write('{', leave)],
    ['is a page that comes in many pieces', (response) => response.writeHead(500).end('<!DOCTYPE html>'.padEnd(256 * 1024))],
  ])('has all its connections again, after as many calls whose answer %s', async (_, answer) => {
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

  it('knows that a call may have been done whose repeat finds nobody', async () => {
    await get();
    server.removeAllListeners('request').on('request', (_request, response: ServerResponse) => {
      server.close();
      response.destroy();
    });
    const failure: unknown = await api.call({ method: 'PATCH', path: '/items', repeatable: true, operation }).catch((error: unknown) => error);
    expect(mayBeDone(failure)).toBe(true);
  });

  it('parses an answer that it gets again when it has changed, whatever came in between', async () => {
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

  it('asks for one token for all calls that come at once', async () => {
    await Promise.all(Array.from({ length: 100 }, get));
    expect({ tokens, used: new Set(used) }).toEqual({ tokens: 1, used: new Set(['Bearer 1']) });
  });

  it('asks for one new token in ten seconds while all are refused, and is well when they no longer are', async () => {
    // Without the timers that a call needs.
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

  it('asks for a new token each time that one is refused which was accepted before', async () => {
    for (let time = 1; time <= 5; time++) {
      await get();
      isRefused = (token) => Number(token) <= time;
    }
    await get();
    expect(tokens).toBe(6);
  });

  it.each([
    // Life, and when the token is still used, and no longer.
    [300, 269, 270],
    [86_400, 86_369, 86_370],
    [40, 19, 20],
  ])('uses a token that lives for %i s until %i s, and asks for one new one at %i s', async (life, last, renewed) => {
    // Without the timers that a call needs.
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

/** A server that takes no more connections: its process is stopped, and the few are taken that the system keeps for it. */
async function startUnreachable() {
  const program = `
    const server = require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => console.log(server.address().port));`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  child.kill('SIGSTOP');
  const port = Number(line);
  const waiting: Socket[] = [];
  // The system takes one more than the backlog says.
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

  it('gives up before the time for the answer is over, and knows that nothing was done', async () => {
    const error: unknown = await api.call({ method: 'POST', path: '/items', body: {}, operation }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ProviderUnavailable);
    // As it is when the ten seconds for the answer are over.
    expect(error).not.toBeInstanceOf(OutcomeUnknown);
  });
});
