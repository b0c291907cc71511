// A proxy in front of an HTTP server. On a test's request it imitates faults of the network and of the server.
import { once } from 'node:events';
import { Agent, createServer, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const errorBody = (code) => `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>As told.</Message></Error>`;

class FaultProxy {
  requests = [];
  #agent = new Agent({ keepAlive: true });
  #server = createServer((incoming, outgoing) => {
    // When the server or the client disconnects, the proxy closes the other one's connection too.
    this.#serve(incoming, outgoing).catch(() => incoming.socket.destroy());
  });
  #target;
  #port;
  #delay = { ms: 0, to: () => false };
  #resets = false;
  #throttles = false;
  #response;
  #held = Promise.resolve();
  #release = () => undefined;
  #isHeld = () => true;
  #isPostponed = () => false;
  #muted;
  #altered;
  #isRepeated = () => false;
  #faults = [];

  constructor(target, keepAliveMs) {
    this.#target = new URL(target);
    this.#server.requestTimeout = 0;
    this.#server.keepAliveTimeout = keepAliveMs;
  }

  get endpoint() {
    return `http://127.0.0.1:${this.#port}`;
  }

  async listen() {
    this.#server.listen(this.#port ?? 0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = this.#server.address().port;
  }

  async pass() {
    this.#clear();
    if (!this.#server.listening) await this.listen();
  }

  delay(ms, { to = () => true } = {}) {
    this.#clear();
    this.#delay = { ms, to };
  }

  async refuse() {
    this.#clear();
    await this.#stopListening();
  }

  reset() {
    this.#clear();
    this.#resets = true;
    this.#server.closeAllConnections();
  }

  hold({ to = () => true } = {}) {
    this.#clear();
    this.#isHeld = to;
    this.#held = new Promise((resolve) => (this.#release = resolve));
  }

  postpone({ to = () => true } = {}) {
    this.hold({ to: () => false });
    this.#isPostponed = to;
  }

  throttle() {
    this.#clear();
    this.#throttles = true;
  }

  respond(status, body, { to = () => true } = {}) {
    this.#clear();
    this.#response = { status, body, to };
  }

  mute(header, { to = () => true } = {}) {
    this.#clear();
    this.#muted = { header, to };
  }

  alter(change, { to = () => true } = {}) {
    this.#clear();
    this.#altered = { change, to };
  }

  repeat({ to = () => true } = {}) {
    this.#clear();
    this.#isRepeated = to;
  }

  cutAnswer({ to = () => true, afterBytes = 0, times = 1 } = {}) {
    return new Promise((resolve) => this.#faults.push({ to, afterBytes, times, resolve }));
  }

  answer(status, code, { to = () => true, times = 1 } = {}) {
    return new Promise((resolve) => this.#faults.push({ to, status, code, times, resolve }));
  }

  connections() {
    return promisify(this.#server.getConnections.bind(this.#server))();
  }

  async close() {
    this.#clear();
    await this.#stopListening();
    this.#agent.destroy();
  }

  #clear() {
    this.#delay = { ms: 0, to: () => false };
    this.#isPostponed = () => false;
    this.#resets = false;
    this.#throttles = false;
    this.#response = undefined;
    this.#muted = undefined;
    this.#altered = undefined;
    this.#isRepeated = () => false;
    this.#faults = [];
    this.#release();
    this.#held = Promise.resolve();
  }

  async #stopListening() {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(incoming, outgoing) {
    const { method, url } = incoming;
    this.requests.push({ method, url });
    if (this.#resets) {
      incoming.socket.resetAndDestroy();
      return;
    }
    if (this.#throttles) {
      await refuseWith(503, 'SlowDown', incoming, outgoing);
      return;
    }
    if (this.#response?.to({ method, url })) {
      const { status, body } = this.#response;
      await incoming.resume().toArray();
      outgoing.writeHead(status, { 'content-type': body.startsWith('<') ? 'text/html' : 'application/json' }).end(body);
      return;
    }
    const fault = this.#faults.find(({ to }) => to({ method, url }));
    if (fault && --fault.times === 0) this.#faults.splice(this.#faults.indexOf(fault), 1);

    if (fault?.status) {
      await refuseWith(fault.status, fault.code, incoming, outgoing);
      fault.resolve();
      return;
    }
    const isPostponed = this.#isPostponed({ method, url });
    const isRepeated = this.#isRepeated({ method, url });
    const whole = isPostponed || isRepeated ? Buffer.concat(await incoming.toArray()) : undefined;
    const content = whole ? Readable.from([whole]) : incoming;
    if (isPostponed) await this.#held;
    const { hostname, port } = this.#target;
    const options = { hostname, port, method, path: url, headers: incoming.rawHeaders, agent: this.#agent };
    if (isRepeated) await sendOnce(options, whole);
    const forwarded = request(options);
    const answered = once(forwarded, 'response');
    forwarded.on('error', () => incoming.socket.destroy());
    content.pipe(forwarded);
    incoming.once('close', () => incoming.complete || forwarded.destroy());
    outgoing.once('close', () => isPostponed || outgoing.writableFinished || forwarded.destroy());
    const [answer] = await answered;

    if (this.#delay.to({ method, url })) await delay(this.#delay.ms);
    if (this.#isHeld({ method, url })) await this.#held;
    if (!fault && this.#altered?.to({ method, url })) {
      const body = Buffer.concat(await answer.toArray());
      const { headers = answer.headers, body: other = body } = this.#altered.change({ headers: { ...answer.headers }, body });
      if ('content-length' in headers && other !== body) headers['content-length'] = String(other.length);
      outgoing.writeHead(answer.statusCode, answer.statusMessage, headers).end(method === 'HEAD' ? undefined : other);
      return;
    }
    if (!fault) {
      const headers = { ...answer.headers };
      if (this.#muted?.to({ method, url })) delete headers[this.#muted.header];
      outgoing.writeHead(answer.statusCode, answer.statusMessage, headers);
      await pipeline(answer, outgoing);
      return;
    }
    // The server's whole answer is read before the connection is cut, so that the server has carried out the request.
    const body = Buffer.concat(await answer.toArray());
    if (fault.afterBytes > 0) {
      outgoing.writeHead(answer.statusCode, answer.statusMessage, answer.rawHeaders);
      await new Promise((written) => outgoing.write(body.subarray(0, fault.afterBytes), written));
    }
    incoming.socket.destroy();
    fault.resolve();
  }
}

async function sendOnce(options, body) {
  const first = request(options).end(body);
  const [answer] = await once(first, 'response');
  await answer.resume().toArray();
}

async function refuseWith(status, code, incoming, outgoing) {
  await incoming.resume().toArray();
  const isJson = code.startsWith('{');
  outgoing.writeHead(status, { 'content-type': isJson ? 'application/json' : 'application/xml' }).end(isJson ? code : errorBody(code));
}

/**
 * Returns a change for `alter` that makes the answer's `Date` later.
 *
 * @param {number} ms how much later, in milliseconds
 */
export const otherTime = (ms) => ({ headers }) => ({ headers: { ...headers, date: new Date(Date.parse(headers.date) + ms).toUTCString() } });

/**
 * Starts a fault proxy on a free port of the loopback interface. At first it passes everything on (the mode `pass`).
 *
 * @param {string} target the URL of the server, `http://host:port`
 * @param {{ keepAliveMs?: number }} [options] `keepAliveMs`: how long an idle connection from a client stays open.
 * @returns {Promise<import('./fault-proxy.mjs').FaultProxy>}
 */
export async function startFaultProxy(target, { keepAliveMs = 60_000 } = {}) {
  const proxy = new FaultProxy(target, keepAliveMs);
  await proxy.listen();
  return proxy;
}
