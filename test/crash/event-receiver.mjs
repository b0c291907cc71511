import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';

const REFUSED_SHARE = 0.03;
const BROKEN_SHARE = 0.03;
const LOOK_EVERY_MS = 100;

export const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;

/** A webhook that counts how often it got each event, without the deliveries that it broke off or refused. */
export class EventReceiver {
  findings = [];
  deliveredTwice = 0;
  deliveries = 0;
  refused = 0;
  secret = newSecret();
  #order = new Map();
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

  static async start(random) {
    const receiver = new EventReceiver();
    receiver.#random = random;
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get variables() {
    return { EVENTS_WEBHOOK_URL: `http://127.0.0.1:${this.#server.address().port}/`, EVENTS_WEBHOOK_SECRET: this.secret };
  }

  get delivered() {
    return this.#order.size;
  }

  hasReceived(id) {
    return this.#order.has(id);
  }

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
    // A killed service breaks its connection, so a body may end early. Such a delivery doesn't count.
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
