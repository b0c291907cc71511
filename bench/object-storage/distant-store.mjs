import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { selfSigned } from '../../test/servers/self-signed.mjs';
import { startVersitygw } from '../../test/servers/versitygw.mjs';
import { Services } from '../support/service.mjs';

export const LATENCY_MS = 10;
export const LATENCY_PROXY = fileURLToPath(new URL('latency-proxy.mjs', import.meta.url));
const BUCKET = 'load-data';

/** An S3 store with an empty bucket, reached over TLS through a proxy that delays the requests to the store. */
export class DistantStore {
  #server;
  #proxies;

  constructor(server, proxies, proxy, certificatePath) {
    this.#server = server;
    this.#proxies = proxies;
    this.directory = server.directory;
    this.variables = {
      ...server.environment(BUCKET),
      S3_ENDPOINT: proxy.url.replace('http:', 'https:'),
      NODE_EXTRA_CA_CERTS: certificatePath,
      AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
    };
  }

  static async start() {
    const server = await startVersitygw();
    const directory = await mkdtemp(join(tmpdir(), 'load-data-bench-'));
    const proxies = new Services(directory, LATENCY_PROXY);
    try {
      await server.createBucket(BUCKET);
      const { certificate: CERTIFICATE, key: KEY, certificatePath } = await selfSigned(directory, 'store');
      const proxy = await proxies.start({ TARGET: server.endpoint, LATENCY_MS: String(LATENCY_MS), CERTIFICATE, KEY });
      return new DistantStore(server, proxies, proxy, certificatePath);
    } catch (error) {
      await Promise.all([server.stop(), proxies.end()]);
      throw error;
    }
  }

  async stop() {
    await Promise.all([this.#server.stop(), this.#proxies.end()]);
  }
}
