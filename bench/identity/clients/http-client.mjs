import { Pool } from 'undici';

export class OtherStatus extends Error {}

/**
 * A client that sends and receives JSON with one access token, over connections that are reused. Sends requests to each
 * of its URLs in turn.
 */
export class HttpClient {
  #targets;
  #asked = 0;
  #headers;

  /**
   * @param {{ urls: string[], connections: number, token: string }} options A URL's path is the prefix of the path of
   *   each request. `connections` is the most to each URL.
   */
  constructor({ urls, connections, token }) {
    this.#targets = urls.map((url) => {
      const { origin, pathname } = new URL(url);
      return { pool: new Pool(origin, { connections }), prefix: pathname };
    });
    this.#headers = { authorization: `Bearer ${token}` };
  }

  get(path) {
    return this.#ask('GET', path, undefined, 200);
  }

  send(method, path, body, status) {
    return this.#ask(method, path, JSON.stringify(body), status);
  }

  async #ask(method, path, body, status) {
    const headers = body === undefined ? this.#headers : { ...this.#headers, 'content-type': 'application/json' };
    const { pool, prefix } = this.#targets[this.#asked++ % this.#targets.length];
    const answer = await pool.request({ method, path: prefix + path, headers, body });
    const text = await answer.body.text();
    if (answer.statusCode !== status) throw new OtherStatus(String(answer.statusCode));
    return { location: answer.headers.location, body: text === '' ? undefined : JSON.parse(text) };
  }
}
