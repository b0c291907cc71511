import type { Server } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { INestApplication } from '@nestjs/common';
import type { Logger } from 'pino';

const IDLE_SWEEP_MS = 50;
/** What closing the adapters may take after the requests have ended or were cut off. */
const CLOSE_TIMEOUT_MS = 2_000;

/** On SIGTERM and SIGINT: accepts nothing more, lets what is in flight finish for so many milliseconds, exits 0. */
export function shutDownOnSignal(app: INestApplication, server: Server, timeoutMs: number, logger: Logger): void {
  let stopping = false;
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) return;
    stopping = true;
    logger.info({ signal }, 'stopping');
    void finish(app, server, timeoutMs, logger).then(() => process.exit(0));
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);
}

async function finish(app: INestApplication, server: Server, timeoutMs: number, logger: Logger): Promise<void> {
  if (server.listening) {
    const closed = new Promise((resolve) => server.close(resolve));
    // A connection that is kept alive becomes idle with its answer, and nobody else would close it then.
    const sweep = setInterval(() => {
      server.closeIdleConnections();
    }, IDLE_SWEEP_MS);
    await Promise.race([closed, delay(timeoutMs)]);
    clearInterval(sweep);
    server.closeAllConnections();
  }
  try {
    await Promise.race([app.close(), delay(CLOSE_TIMEOUT_MS)]);
  } catch (error) {
    logger.error({ err: error }, 'while stopping');
  }
}
