import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startVersitygw } from '../../test/servers/versitygw.mjs';
import { Services } from '../support/service.mjs';

export const LATENCY_MS = 10;
export const LATENCY_PROXY = fileURLToPath(new URL('latency-proxy.mjs', import.meta.url));
const BUCKET = 'load-data';

/** An S3 store with an empty bucket, behind a proxy that delays the requests to the store. */
export class DistantStore {
  #server;
  #proxies;

  constructor(server, proxies, proxy) {
    this.#server = server;
    this.#proxies = proxies;
    this.directory = server.directory;
    this.variables = {
      ...server.environment(BUCKET),
      S3_ENDPOINT: proxy.url,
      AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
    };
  }

  static async start() {
    const server = await startVersitygw();
    const proxies = new Services(await mkdtemp(join(tmpdir(), 'load-data-bench-')), LATENCY_PROXY);
    try {
      await server.createBucket(BUCKET);
      const proxy = await proxies.start({ TARGET: server.endpoint, LATENCY_MS: String(LATENCY_MS) });
      return new DistantStore(server, proxies, proxy);
    } catch (error) {
      await Promise.all([server.stop(), proxies.end()]);
      throw error;
    }
  }

  async stop() {
    await Promise.all([this.#server.stop(), this.#proxies.end()]);
  }
}
