import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { open } from '../../test/support/raw.js';
import { BodyArrival } from './body-arrival.js';
import { bodyPace } from './body-pace.js';

it('the connection of a long body is not read while the body waits for its turn', async () => {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const received = once(server, 'request') as Promise<[IncomingMessage]>;
  const socket = await open((server.address() as AddressInfo).port);
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nbegin');
  const [request] = await received;
  const arrival = new BodyArrival(request);
  await once(request, 'readable');
  bodyPace.arrived();
  const reading = arrival.read();
  await nextIteration();
  expect({ isPaused: request.socket.isPaused(), waiting: bodyPace.waitingCount }).toEqual({ isPaused: true, waiting: 1 });
  expect((await reading)?.toString()).toBe('begin');
  expect(request.socket.isPaused()).toBe(false);
  socket.destroy();
  server.close();
});
