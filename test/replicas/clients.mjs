import { request } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { ListeningAgent } from '../crash/listening-agent.mjs';
import { someUpload } from '../crash/load.mjs';

const AGAIN_MS = 100;
const PIECES = 10;
/** The pauses between the pieces of a slow upload, which add up to 3-5 s. */
const SLOW_PAUSE_MS = { least: 300, more: 200 };
const LOST_ANSWERS = 0.5;
/** The share of acknowledged uploads that the next request looks for. */
const LOOKED_FOR = 0.25;

/**
 * @typedef {object} Failure a request that was not answered with 200
 * @property {number} began when it was sent, by `performance.now()`
 * @property {number} ended when it failed
 * @property {string} what the status, or the code of the connection's error
 */

/**
 * Clients that upload through a proxy until they are stopped. A client repeats an upload with an idempotency key until
 * it is answered with 200, as its users would. It repeats half of these uploads once more, as if that answer had got
 * lost: the repeated upload mostly reaches another replica. It doesn't repeat an upload without a key. It looks for a
 * quarter of the uploads that were answered with 200, which mostly asks another replica, too.
 */
export class Clients {
  sent = 0;
  waits = 0;
  /** @type {Failure[]} */
  failures = [];
  #port;
  #ledger;
  #random;
  #sizes;
  #pauseMs;
  #token;
  #isGoing = true;
  #agent;
  #ended;

  /**
   * @param {number} port where the proxy listens
   * @param {import('../crash/ledger.mjs').Ledger} ledger records the uploads that are answered with 200
   * @param {import('../../dist/testing/random.js').Random} random
   * @param {{ connections: number, slow: number, largest: number, pauseMs: number, token: string }} options how many
   * clients there are, how many more send each upload in 3-5 s, how many bytes the files have at most, how long a client
   * waits after an upload, and an access token that may read all uploads
   */
  constructor(port, ledger, random, { connections, slow, largest, pauseMs, token }) {
    this.#port = port;
    this.#ledger = ledger;
    this.#random = random;
    this.#sizes = { largest };
    this.#pauseMs = pauseMs;
    this.#token = token;
    this.#agent = new ListeningAgent({ keepAlive: true, maxSockets: connections + slow });
    this.#ended = Promise.all(Array.from({ length: connections + slow }, (_, client) => this.#work(client < slow)));
  }

  /** Stops the clients. The uploads in flight are answered first, and those with a key with 200. */
  async stop() {
    this.#isGoing = false;
    await this.#ended;
    this.#agent.destroy();
  }

  async #work(isSlow) {
    while (this.#isGoing) {
      const upload = { ...someUpload(this.#random, this.#ledger.nextName(), this.#sizes), isSlow };
      const pauseMs = await this.#upload(upload);
      if ('Idempotency-Key' in upload.headers) {
        if (pauseMs !== undefined) await this.#repeat(upload, pauseMs);
        if (this.#random.chance(LOST_ANSWERS)) await this.#repeat(upload, 0);
      }
      if (this.#pauseMs > 0) await delay(this.#pauseMs);
    }
  }

  async #repeat(upload, pauseMs) {
    for (let pause = pauseMs; pause !== undefined; ) {
      await delay(pause);
      pause = await this.#upload(upload, true);
    }
  }

  async #upload(upload, isRepeated = false) {
    const { sent } = upload;
    const began = performance.now();
    this.sent += 1;
    const { status, id, retryAfter, error } = await this.#send(upload).catch(({ code, message }) => ({ error: code ?? message }));
    if (status === 200) {
      this.#ledger.acknowledge(id, sent);
      if (this.#random.chance(LOOKED_FOR)) await this.#find(id);
      return undefined;
    }
    if (status === 409 && isRepeated && retryAfter > 0) {
      this.waits += 1;
      return retryAfter * 1000;
    }
    this.failures.push({ began, ended: performance.now(), what: error ?? String(status) });
    return AGAIN_MS;
  }

  async #find(id) {
    const began = performance.now();
    this.sent += 1;
    const { status, error } = await this.#send({ method: 'GET', path: `/uploads/${id}`, headers: { Authorization: `Bearer ${this.#token}` } }).catch(({ code, message }) => ({ error: code ?? message }));
    if (status === 404) this.#ledger.wrong.add(`${id} was answered with 200, but the next request didn't find it`);
    else if (status !== 200) this.failures.push({ began, ended: performance.now(), what: `GET: ${error ?? status}` });
  }

  #send({ method = 'POST', path, headers, body, isSlow = false }) {
    return new Promise((resolve, reject) => {
      const options = { port: this.#port, host: '127.0.0.1', method, path, headers, agent: this.#agent };
      const upload = request(options);
      upload.once('error', reject).once('response', (answer) => {
        const { statusCode: status, headers: received } = answer;
        text(answer).then(() => { resolve({ status, id: received['x-upload-id'], retryAfter: Number(received['retry-after']) }); }, reject);
      });
      if (isSlow) Readable.from(this.#slowly(body)).pipe(upload);
      else upload.end(body);
    });
  }

  async *#slowly(body) {
    const pauseMs = SLOW_PAUSE_MS.least + this.#random.below(SLOW_PAUSE_MS.more);
    for (let piece = 0; piece < PIECES; piece++) {
      yield body.subarray((piece * body.length) / PIECES, ((piece + 1) * body.length) / PIECES);
      await delay(pauseMs);
    }
  }
}
