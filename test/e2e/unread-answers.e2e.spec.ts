import { once } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { EXCHANGE_END } from '../../src/http/exchange.js';
import { IdentityProvider } from '../../src/identity-management/application/ports/identity-provider.port.js';
import type { User } from '../../src/identity-management/domain/user.js';
import { InMemoryIdentityProvider } from '../../src/testing/in-memory.identity-provider.js';
import { deferred } from '../support/deferred.js';
import { open, readAnswer } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

const users = (nameLength: number): User[] => [{ userId: 'memory|1', name: 'n'.repeat(nameLength), email: '' }];

/** The in-memory identity provider, whose list of users is what `script` yields. */
class PagedProvider extends InMemoryIdentityProvider {
  script: (() => AsyncGenerator<User[], void, undefined>) | undefined;

  override listUsers(): AsyncGenerator<readonly User[], void, undefined> {
    if (!this.script) throw new Error('The test sets no script.');
    return this.script();
  }
}

let provider: PagedProvider;
let service: RunningService;
let list: string;
beforeEach(async () => {
  provider = new PagedProvider();
  service = await startService({ REQUEST_IDLE_TIMEOUT_MS: '100' }, (builder) => builder.overrideProvider(IdentityProvider).useValue(provider));
  list = `GET /idpManagementBackend/users HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await service.adminToken()}\r\n\r\n`;
});
afterEach(() => service.close());

/** Sends requests and reads nothing. Resolves when the service has closed the connection. */
async function sendAndReadNothing(requests: string): Promise<void> {
  const server: Server = service.app.getHttpServer();
  const connected = once(server, 'connection') as Promise<[Socket]>;
  const socket = await open(service.port);
  socket.on('error', () => undefined).pause();
  const [ours] = await connected;
  socket.write(requests);
  if (!ours.destroyed) await once(ours, 'close');
  socket.destroy();
}

it('a client that reads nothing of a list for REQUEST_IDLE_TIMEOUT_MS loses its connection, and the list ends', async () => {
  const ended = deferred();
  provider.script = async function* () {
    try {
      for (;;) {
        await nextIteration();
        yield users(65_536);
      }
    } finally {
      ended.resolve();
    }
  };
  await sendAndReadNothing(list);
  await ended.promise;
});

it('a client that reads nothing of Swagger UI for REQUEST_IDLE_TIMEOUT_MS loses its connection', async () => {
  // Together, the answers are longer than what the buffers of a connection hold.
  await sendAndReadNothing('GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(20));
});

it('a client that reads nothing of many answers for REQUEST_IDLE_TIMEOUT_MS loses its connection', async () => {
  await sendAndReadNothing('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1_000));
});

it('a client whose requests wait in thousands loses its connection when other clients let many wait, too, and a client with ten does not', async () => {
  const end = deferred();
  provider.script = async function* () {
    await end.promise;
    yield users(1);
  };
  const few = await open(service.port);
  let answered = '';
  few.on('data', (chunk: Buffer) => (answered += chunk.toString('latin1')));
  const live = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n';
  few.write(list + live.repeat(10));
  const sockets: Socket[] = [];
  const broken = deferred();
  for (let opened = 0; opened < 30; opened++) {
    const socket = await open(service.port);
    let isAnswered = false;
    const onEnd = (): void => { if (!isAnswered) broken.resolve(); };
    socket.on('error', () => undefined).once('data', () => (isAnswered = true)).once('end', onEnd).once('close', onEnd);
    socket.write(list + live.repeat(1_500));
    sockets.push(socket);
  }
  await broken.promise;
  end.resolve();
  await vi.waitFor(() => { expect(answered.match(/HTTP\/1\.1 200/g)).toHaveLength(11); }, { timeout: 10_000 });
  for (const socket of [few, ...sockets]) socket.destroy();
});

it('requests that many clients send in the same moment behind an earlier one are read part by part, and another client gets its answer', async () => {
  const server: Server = service.app.getHttpServer();
  const end = deferred();
  const allWait = deferred();
  let lists = 0;
  provider.script = async function* () {
    if (++lists === 30) allWait.resolve();
    await end.promise;
    yield users(1);
  };
  const sockets = await Promise.all(Array.from({ length: 30 }, () => open(service.port)));
  for (const socket of sockets) socket.on('error', () => undefined).resume().write(list);
  const live = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n';
  const other = await open(service.port);
  other.write(live);
  await readAnswer(other);
  await allWait.promise;
  const allRead = deferred();
  let [begun, ended, most] = [0, 0, 0];
  server.on(EXCHANGE_END, () => ended++).on('request', () => {
    most = Math.max(most, ++begun - ended);
    if (begun === 30_001) allRead.resolve();
  });
  for (const socket of sockets) socket.write('GET / HTTP/1.1\r\n\r\n'.repeat(1_000));
  other.write(live);
  expect((await readAnswer(other)).status).toBe(200);
  await allRead.promise;
  for (const socket of [other, ...sockets]) socket.destroy();
  end.resolve();
  // 10,000 may wait. A turn adds 5,000, and what one read brings above them.
  expect(most).toBeLessThan(17_000);
});

it('a client gets the whole list from a provider that takes longer than REQUEST_IDLE_TIMEOUT_MS for a page', async () => {
  const server: Server = service.app.getHttpServer();
  const isIdle = new Promise((resolve) => server.once('request', (_request, response: ServerResponse) => response.once('timeout', resolve)));
  provider.script = async function* () {
    yield users(1);
    await isIdle;
    yield users(1);
  };
  const answer = await fetch(`${service.url}/idpManagementBackend/users`, { headers: { Authorization: `Bearer ${await service.adminToken()}` } });
  expect([answer.status, ((await answer.json()) as { users: object[] }).users.length]).toEqual([200, 2]);
});
