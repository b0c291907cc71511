// nats-server, a message broker, with JetStream. `node test/servers/nats-server.mjs` runs one until it is interrupted.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort, serveShell, Server } from './server.mjs';

const VERSION = '2.15.2';
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'load-data-service');
const HOME = join(CACHE, `nats-server-${VERSION}`);
const BINARY = join(HOME, 'nats-server');
const RETRY_MS = 10;

class NatsServer extends Server {
  constructor(port, monitoringPort, log) {
    super('nats-server', monitoringPort, log);
    this.url = `nats://127.0.0.1:${port}`;
  }

  async restart() {
    await super.restart();
    // The monitoring port answers before clients can connect.
    for (let isHealthy = false; !isHealthy; ) {
      isHealthy = await fetch(`${this.endpoint}/healthz`).then(
        (response) => response.text().then(() => response.ok),
        () => false,
      );
      if (!isHealthy) await setTimeout(RETRY_MS);
    }
  }
}

/** Whether nats-server is available here: it is installed, or Go exists to install it. */
export const isNatsServerAvailable = () => existsSync(BINARY) || spawnSync('go', ['version']).status === 0;

/**
 * Installs nats-server outside the repository unless it is installed. Takes a minute or two, and needs the network.
 * Rejects if Go is missing, and with its output if the installation fails.
 */
export async function installNatsServer() {
  if (existsSync(BINARY)) return;
  if (!isNatsServerAvailable()) throw new Error(`nats-server ${VERSION} is not installed, and there is no Go to install it with.`);
  console.error(`Installing nats-server ${VERSION}, which takes a minute or two.`);
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${HOME}.`);
  try {
    const env = { ...process.env, GOBIN: fresh, CGO_ENABLED: '0' };
    await promisify(execFile)('go', ['install', `github.com/nats-io/nats-server/v2@v${VERSION}`], { env });
    await rename(fresh, HOME);
  } catch (error) {
    // Another process may have been faster.
    if (!existsSync(BINARY)) throw error;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

/**
 * Starts a nats-server with JetStream, and installs it first if needed. Rejects if it isn't available or doesn't start.
 *
 * @param {{ log?: (text: string) => void }} [options]
 * @returns {Promise<import('./nats-server.mjs').NatsServer>}
 */
export async function startNatsServer({ log } = {}) {
  await installNatsServer();
  const [port, monitoringPort] = [await freePort(), await freePort()];
  const server = new NatsServer(port, monitoringPort, log);
  const options = ['--addr', '127.0.0.1', '--port', `${port}`, '--http_port', `${monitoringPort}`];
  await server.start(BINARY, [...options, '--jetstream', '--store_dir', server.directory]);
  return server;
}

if (process.argv[1] === import.meta.filename) {
  await serveShell(async () => {
    const server = await startNatsServer();
    return { server, variables: { NATS_URL: server.url } };
  });
}
