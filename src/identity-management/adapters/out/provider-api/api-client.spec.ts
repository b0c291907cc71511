import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { ApiClient } from './api-client.js';

const { signal } = new AbortController();
/** Long enough to be remembered, and of one length. */
const list = (last: string): string[] => [...Array.from({ length: 10_000 }, (_, index) => `item ${index}`), last];
const LISTS = z.array(z.string());

let answer = '';
const server = createServer((request, response) => {
  response.end(request.url === '/token' ? '{"access_token":"token","expires_in":300}' : answer);
});
let client: ApiClient;

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  client = new ApiClient({ provider: 'A provider', url, token: { url: `${url}/token`, grant: {} } });
});
afterAll(async () => {
  await client.close();
  server.close();
});

it('gives each long answer as it is now, the same as before or another', async () => {
  for (const last of ['a', 'a', 'b', 'a']) {
    answer = JSON.stringify(list(last));
    expect(await client.get('/items', LISTS, signal)).toEqual(list(last));
  }
});

it('refuses a long answer that is no JSON each time, and gives the next one', async () => {
  for (const body of ['"'.repeat(200_000), '"'.repeat(200_000)]) {
    answer = body;
    await expect(client.get('/items', LISTS, signal)).rejects.toThrow('no JSON');
  }
  answer = JSON.stringify(list('c'));
  expect(await client.get('/items', LISTS, signal)).toEqual(list('c'));
});
