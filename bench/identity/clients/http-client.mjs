import { Pool } from 'undici';

export class OtherStatus extends Error {}

/** A client that sends and receives JSON with one access token, over connections that are reused. */
export class HttpClient {
  #pool;
  #path;
  #headers;

  /**
   * @param {{ url: string, connections: number, token: string }} options `url` is the prefix of the path of each
   *   request.
   */
  constructor({ url, connections, token }) {
    const { origin, pathname } = new URL(url);
    this.#pool = new Pool(origin, { connections });
    this.#path = pathname;
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
    const answer = await this.#pool.request({ method, path: this.#path + path, headers, body });
    const text = await answer.body.text();
    if (answer.statusCode !== status) throw new OtherStatus(String(answer.statusCode));
    return { location: answer.headers.location, body: text === '' ? undefined : JSON.parse(text) };
  }
}
