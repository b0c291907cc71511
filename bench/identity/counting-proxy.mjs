import { once } from 'node:events';
import { createServer } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { Agent, request } from 'undici';

/**
 * An HTTP proxy in front of a server. Counts the requests that were answered completely and whose path `isCounted`
 * accepts.
 */
export class CountingProxy {
  #agent = new Agent();
  #server;
  answered = 0;

  static async start(target, isCounted) {
    const proxy = new CountingProxy();
    proxy.#server = createServer((incoming, outgoing) => {
      proxy.#pass(target, incoming, outgoing).then(
        () => (proxy.answered += isCounted(incoming.url) ? 1 : 0),
        () => outgoing.destroy(),
      );
    });
    await once(proxy.#server.listen(0, '127.0.0.1'), 'listening');
    proxy.endpoint = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  async stop() {
    this.#server.close();
    this.#server.closeAllConnections();
    await this.#agent.destroy();
  }

  async #pass(target, incoming, outgoing) {
    const headers = { ...incoming.headers };
    // Headers that concern only the client's connection to this proxy aren't passed on.
    for (const name of ['connection', 'host', 'transfer-encoding']) delete headers[name];
    const body = incoming.method === 'GET' ? undefined : incoming;
    const answer = await request(target + incoming.url, { dispatcher: this.#agent, method: incoming.method, headers, body });
    outgoing.writeHead(answer.statusCode, answer.headers);
    await pipeline(answer.body, outgoing);
  }
}
