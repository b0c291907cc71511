import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { open } from '../../test/support/raw.js';
import { drain } from './drain.js';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

it('a request whose client has gone is not drained, and leaves no timer', async () => {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const received = once(server, 'request') as Promise<[IncomingMessage]>;
  const socket = await open((server.address() as AddressInfo).port);
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nbegin');
  const [request] = await received;
  const lost = new Promise((resolve) => request.once('error', () => undefined).once('close', resolve));
  socket.destroy();
  await lost;
  expect(await drain(request)).toBe(false);
  expect(vi.getTimerCount()).toBe(0);
  server.close();
});
