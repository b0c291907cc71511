// Installs and starts nats-server, a message broker, with JetStream. `node test/servers/nats-server.mjs` runs one until
// it is interrupted.
import { setTimeout as delay } from 'node:timers/promises';
import { GoProgram } from './go-program.mjs';
import { freePort, serveShell, Server } from './server.mjs';

const PROGRAM = new GoProgram('nats-server', '2.15.2', 'github.com/nats-io/nats-server/v2');
const RETRY_MS = 10;

class NatsServer extends Server {
  constructor(port, monitoringPort, log) {
    super('nats-server', monitoringPort, log);
    this.url = `nats://127.0.0.1:${port}`;
  }

  async restart() {
    await super.restart();
    // The monitoring port answers before the server accepts clients, so this waits until the server reports that it is
    // healthy.
    for (let isHealthy = false; !isHealthy; ) {
      isHealthy = await fetch(`${this.endpoint}/healthz`).then(
        (response) => response.text().then(() => response.ok),
        () => false,
      );
      if (!isHealthy) await delay(RETRY_MS);
    }
  }
}

export const isNatsServerAvailable = () => PROGRAM.isAvailable;

export const installNatsServer = () => PROGRAM.install();

/**
 * Starts a nats-server with JetStream, and installs nats-server before if needed. Rejects if it isn't available or
 * doesn't start.
 *
 * @param {{ log?: (text: string) => void }} [options]
 * @returns {Promise<import('./nats-server.mjs').NatsServer>}
 */
export async function startNatsServer({ log } = {}) {
  await installNatsServer();
  const [port, monitoringPort] = [await freePort(), await freePort()];
  const server = new NatsServer(port, monitoringPort, log);
  const options = ['--addr', '127.0.0.1', '--port', `${port}`, '--http_port', `${monitoringPort}`];
  await server.start(PROGRAM.binary, [...options, '--jetstream', '--store_dir', server.directory]);
  return server;
}

if (process.argv[1] === import.meta.filename) {
  await serveShell(async () => {
    const server = await startNatsServer();
    return { server, variables: { NATS_URL: server.url } };
  });
}
