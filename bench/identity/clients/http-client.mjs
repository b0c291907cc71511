import { Pool } from 'undici';

/** An answer with another status than the one that was asked for. */
export class OtherStatus extends Error {}

/** Asks for JSON with one token, over connections that are kept. */
export class HttpClient {
  #pool;
  #path;
  #headers;

  /** @param {{ url: string, connections: number, token: string }} options the URL is in front of each path. */
  constructor({ url, connections, token }) {
    const { origin, pathname } = new URL(url);
    this.#pool = new Pool(origin, { connections });
    this.#path = pathname;
    this.#headers = { authorization: `Bearer ${token}` };
  }

  get(path) {
    return this.#ask('GET', path, undefined, 200);
  }

  /** @param {number} status that the answer must have */
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
