import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type INestApplication, Logger } from '@nestjs/common';
import { latestExchange } from '../http/exchange.js';

const logger = new Logger('Shutdown');
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
const IDLE_SWEEP_MS = 50;
/** How long closing the adapters may take after the requests have ended or were cut off, in milliseconds. */
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Makes SIGTERM and SIGINT exit with 0 at once, until `shutDownOnSignal` is called. Before that call, no request is in
 * flight.
 */
export function exitOnSignal(): void {
  for (const signal of SIGNALS) process.on(signal, exit);
}

const exit = (): never => process.exit(0);

/**
 * From now on SIGTERM and SIGINT stop the service gracefully: the service accepts no more connections, waits up to
 * `timeoutMs` milliseconds for requests in flight and then cuts them off, waits up to two seconds for the adapters to
 * close, and exits with 0. Must be called before the server listens.
 */
export function shutDownOnSignal(app: INestApplication<Server>, timeoutMs: number): void {
  const server = app.getHttpServer();
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  let stopping = false;
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) return;
    stopping = true;
    // The response that is in progress on a connection is the last one there. Otherwise a client that never pauses
    // could keep its connection forever. Responses to later requests close their connections anyway.
    for (const socket of sockets) {
      const exchange = latestExchange(socket);
      if (exchange) exchange.response.shouldKeepAlive = false;
    }
    logger.log({ msg: 'stopping', signal });
    void finish(app, server, sockets, timeoutMs)
      .catch((error: unknown) => {
        logger.error({ msg: 'while stopping', err: error });
      })
      .then(exit);
  };
  for (const signal of SIGNALS) process.off(signal, exit).on(signal, stop);
}

async function finish(app: INestApplication, server: Server, sockets: Set<Socket>, timeoutMs: number): Promise<void> {
  if (server.listening) {
    const closed = new Promise((resolve) => server.close(resolve));
    const sweep = setInterval(() => {
      closeUnused(server, sockets);
    }, IDLE_SWEEP_MS);
    await Promise.race([closed, delay(timeoutMs)]);
    clearInterval(sweep);
    server.closeAllConnections();
  }
  await Promise.race([app.close(), delay(CLOSE_TIMEOUT_MS)]);
}

/**
 * Closes unused connections while the service stops. A kept-alive connection becomes idle after its answer, and nothing
 * else closes it then. Node doesn't count a connection that has never sent anything as idle, because such a connection
 * still waits for its first request. So these connections are closed separately.
 */
function closeUnused(server: Server, sockets: Set<Socket>): void {
  server.closeIdleConnections();
  for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
}
