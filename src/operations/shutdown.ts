import { once } from 'node:events';
import type { Server } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { setImmediate as nextIteration, setTimeout as delay } from 'node:timers/promises';
import { type INestApplication, Logger } from '@nestjs/common';
import { EXCHANGE_END, latestExchange } from '../http/exchange.js';
import { exit, SIGNALS } from './exit-on-signal.js';
import { Readiness } from './health/readiness.js';

const logger = new Logger('Shutdown');
const SWEEP_INTERVAL_MS = 50;
/**
 * Unused connections are closed once no request has ended for this long. Closing them sooner could lose a request that
 * a proxy is sending.
 */
const QUIET_MS = 1_000;
const ACCEPT_TIMEOUT_MS = 1_000;
/** How short an iteration of the event loop must be to end the wait for connections when its second is nearly over. */
const SHORT_ITERATION_MS = 1;
const CLOSE_TIMEOUT_MS = 2_000;

export interface ShutdownTimes {
  /** How long requests are still accepted after a signal, so that load balancers see that the service isn't ready. */
  readonly shutdownDelayMs: number;
  readonly shutdownTimeoutMs: number;
}

/**
 * Makes SIGTERM and SIGINT stop the service gracefully, and then exit with 0. Must be called before the server listens.
 *
 * @param finishWork ends work that isn't a request. Called when the last request has ended; has the rest of their time.
 */
export function shutDownOnSignal(app: INestApplication<Server>, times: ShutdownTimes, finishWork: () => Promise<void>): void {
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
    app.get(Readiness).stop();
    logger.log({ msg: 'stopping', signal });
    void finish(app, sockets, times, finishWork)
      .catch((error: unknown) => {
        logger.error({ msg: 'An error occurred while stopping', err: error });
      })
      .then(exit);
  };
  for (const signal of SIGNALS) process.off(signal, exit).on(signal, stop);
}

async function finish(app: INestApplication<Server>, sockets: Set<Socket>, { shutdownDelayMs, shutdownTimeoutMs }: ShutdownTimes, finishWork: () => Promise<void>): Promise<void> {
  const server = app.getHttpServer();
  if (server.listening) {
    await delay(shutdownDelayMs);
    await stopListening(server);
    await Promise.race([endConnections(server, sockets).then(finishWork), delay(shutdownTimeoutMs)]);
    server.closeAllConnections();
  }
  const isLate = await Promise.race([app.close().then(() => false), delay(CLOSE_TIMEOUT_MS, true)]);
  if (isLate) logger.warn(`Closing took longer than ${CLOSE_TIMEOUT_MS} ms. If the store wasn't closed, the next start recovers it, as after a crash. The last traces may be lost.`);
}

/**
 * Stops listening as soon as no connection waits to be accepted, and after a second at the latest: the kernel resets
 * those that wait. A proxy that has sent an upload on one may not send it again, and answers 502.
 *
 * Node accepts one connection in each iteration of the event loop, so after an iteration without a new one, none waits
 * but those that arrived meanwhile. Many may arrive at once, after the answers of a shared flush. So the iteration must be
 * very short at first, and may be longer later.
 */
async function stopListening(server: Server): Promise<void> {
  const start = performance.now();
  let accepted = 0;
  const onConnection = (): void => {
    accepted++;
  };
  server.on('connection', onConnection);
  for (let waitedMs = 0, isQuiet = false; !isQuiet && waitedMs < ACCEPT_TIMEOUT_MS; ) {
    const before = accepted;
    await nextIteration();
    const iterationMs = performance.now() - start - waitedMs;
    isQuiet = accepted === before && iterationMs < (SHORT_ITERATION_MS * waitedMs) / ACCEPT_TIMEOUT_MS;
    waitedMs += iterationMs;
  }
  // Calls `close` of net.Server, because `close` of http.Server would close idle connections at once.
  NetServer.prototype.close.call(server);
  server.off('connection', onConnection);
}

/**
 * Ends keep-alive: each connection closes after its next answer. Otherwise a client that never pauses could keep its
 * connection open forever. Closes connections once they are unused. Resolves when all have ended.
 */
async function endConnections(server: Server, sockets: Set<Socket>): Promise<void> {
  const end = once(server, 'close');
  let usedAt = performance.now();
  server.on(EXCHANGE_END, () => {
    usedAt = performance.now();
  });
  for (const socket of sockets) {
    const exchange = latestExchange(socket);
    if (exchange) exchange.response.shouldKeepAlive = false;
  }
  // `setImmediate` runs right after the event loop has read from all connections. So when unused connections are
  // closed, no request that has arrived on one of them is still unread.
  const sweep = setInterval(() => setImmediate(() => {
    if (performance.now() - usedAt >= QUIET_MS) closeUnused(server, sockets);
  }), SWEEP_INTERVAL_MS);
  await end;
  clearInterval(sweep);
}

/** Closes unused connections. Node doesn't count one that has never sent anything as idle, so it is destroyed here. */
function closeUnused(server: Server, sockets: Set<Socket>): void {
  server.closeIdleConnections();
  for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
}
