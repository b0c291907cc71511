import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';

/** The share of the deliveries that the receiver refuses, or ends without an answer. */
const REFUSED_SHARE = 0.03;
const BROKEN_SHARE = 0.03;
const LOOK_EVERY_MS = 100;

export const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;

/**
 * A webhook that counts how often it got each event. Some deliveries may fail: it answers them with 503 or breaks
 * their connection, and doesn't count them.
 */
export class EventReceiver {
  /** What is wrong with the deliveries. One sentence each. */
  findings = [];
  /** How often an event was delivered again. */
  deliveredTwice = 0;
  /** The number of deliveries, and of those whose signature or body was not valid, which are answered with 401. */
  deliveries = 0;
  refused = 0;
  /** The only secret with which a delivery must be signed, in the form of Standard Webhooks. */
  secret = newSecret();
  /** The ids of the events in the order in which they were first delivered, with their places in this order. */
  #order = new Map();
  /** The ids of the events of the last delivery that counted. */
  #last = [];
  /** The ids of the events that may be delivered again, each once, because of a kill. */
  #repeatable = new Set();
  #random;
  #server = createServer((request, response) => {
    this.#take(request, response).catch((error) => {
      this.refused += 1;
      this.findings.push(`a delivery is not valid: ${error.message}`);
      response.writeHead(401).end();
    });
  });

  /** @param {import('../../dist/testing/random.js').Random} [random] chooses the deliveries that fail. Default: none */
  static async start(random) {
    const receiver = new EventReceiver();
    receiver.#random = random;
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  /** The environment of a service that delivers to this receiver. */
  get variables() {
    return { EVENTS_WEBHOOK_URL: `http://127.0.0.1:${this.#server.address().port}/`, EVENTS_WEBHOOK_SECRET: this.secret };
  }

  /** The number of different events that were delivered. */
  get delivered() {
    return this.#order.size;
  }

  hasReceived(id) {
    return this.#order.has(id);
  }

  /** The place of an event among all, by when it was first delivered; undefined if it was not. */
  orderOf(id) {
    return this.#order.get(id);
  }

  /**
   * Allows the service, which was just killed, to deliver some events again: those of its last delivery, because it may
   * not have confirmed them.
   *
   * @param {Iterable<string>} others the ids of other events that may be delivered again.
   */
  allowRepeats(others) {
    for (const id of [...this.#last, ...others]) this.#repeatable.add(id);
  }

  /** Whether an event may be delivered again. */
  mayRepeat(id) {
    return this.#repeatable.has(id);
  }

  /**
   * Waits until each of these uploads was reported as stored or as removed, but not longer than a time in milliseconds.
   *
   * @returns {Promise<string[]>} a sentence about each that was not delivered
   */
  async undelivered(ids, withinMs) {
    const began = performance.now();
    const left = () => ids.filter((id) => !this.hasReceived(id) && !this.hasReceived(`${id}-removed`));
    while (left().length > 0 && performance.now() - began < withinMs) await delay(LOOK_EVERY_MS);
    return left().map((id) => `${id} was never delivered`);
  }

  close() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #take(request, response) {
    // A killed service breaks its connection, so that a body may end early. Such a delivery doesn't count.
    const body = await buffer(request).catch(() => undefined);
    if (body === undefined) return;
    this.deliveries += 1;
    if (this.#random?.chance(BROKEN_SHARE)) {
      request.socket.destroy();
      return;
    }
    if (this.#random?.chance(REFUSED_SHARE)) {
      response.writeHead(503, { 'Retry-After': '0' }).end();
      return;
    }
    const events = new Webhook(this.secret).verify(body, request.headers);
    for (const { id } of events) this.#count(id);
    this.#last = events.map(({ id }) => id);
    response.writeHead(204).end();
  }

  #count(id) {
    if (!this.#order.has(id)) {
      this.#order.set(id, this.#order.size);
      return;
    }
    this.deliveredTwice += 1;
    if (!this.#repeatable.delete(id)) this.findings.push(`${id} was delivered again, and not because of a kill`);
  }
}
