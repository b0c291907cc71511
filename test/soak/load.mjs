import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { ListeningAgent } from '../crash/listening-agent.mjs';

const KIB = 1024;
const USERS = 100;
const CUSTOMERS = 50;
const TICK_MS = 1;
const TOKEN_MS = 10 * 60 * 1000;
const MOST_KNOWN = 1_000;
/** One in this many uploads is kept for a removal, and is never found or fetched. */
const REMOVED_SHARE = 100;
const UPLOAD = '/ingestHistoricalLoadData/upload_historical';
const BOUNDARY = 'soak-boundary';
/** The kinds of requests to the control. Each has this share of the load's rate, but at least this many per second. */
const CONTROLS = ['control read', 'control fetch', 'control write'];
const CONTROL_SHARE = 0.05;
const LEAST_CONTROL_RATE = 5;

/** How many of 1,000 requests are of each kind. */
const MIX = {
  json: 498,
  file: 150,
  form: 50,
  large: 5,
  find: 90,
  content: 90,
  list: 2,
  users: 35,
  roles: 30,
  assign: 10,
  update: 10,
  remove: 1,
  unauthorized: 15,
  invalid: 14,
};

/**
 * Sends a mix of requests at a constant rate, however fast the service answers, and beside it requests to a control.
 * The latency of a request counts from the time at which it is due.
 */
export class MixedLoad {
  /** The latencies of the expected answers: `[kind, seconds since the start, milliseconds]`. */
  latencies = [];
  unexpected = new Map();
  /** How many requests were sent to the service. */
  sent = 0;
  #service;
  #control;
  #token;
  #newToken;
  #random;
  #agent = new ListeningAgent({ keepAlive: true, maxSockets: 64 });
  #controlAgent = new ListeningAgent({ keepAlive: true });
  #known = [];
  #removable = [];
  #rotation = new Rotation(MIX);
  #uploads = 0;
  #inFlight = new Set();
  #users = [];
  #role;
  #began;

  constructor(service, control, newToken, random) {
    this.#service = service;
    this.#control = control;
    this.#newToken = newToken;
    this.#random = random;
  }

  async prepare() {
    await this.#renewToken();
    const created = await this.#command('/create-role', { role_name: 'Soak', permissions: ['read:users'] });
    this.#role = created.role_id;
    for (let user = 0; user < USERS; user++) {
      const { user_id: id } = await this.#command('/create-user', { email: `soak-${user}@grid.example`, name: `User ${user}`, roles: [this.#role] });
      this.#users.push(id);
    }
  }

  /**
   * Sends requests until the signal is aborted, and then waits for the answers in flight.
   *
   * @param {number} rate requests per second to the service
   * @param {AbortSignal} signal
   */
  async run(rate, signal) {
    this.#began = performance.now();
    let renewedAt = this.#began;
    const interval = 1000 / rate;
    const load = new Schedule(this.#began + interval, interval);
    const controlInterval = 1000 / Math.max(LEAST_CONTROL_RATE, rate * CONTROL_SHARE);
    const controls = CONTROLS.map((kind, index) => {
      // At the default rates, each request to the control is due halfway between two to the service, so that it waits
      // the least for them.
      const behind = Math.round((controlInterval * index) / CONTROLS.length / interval) * interval;
      return { kind, schedule: new Schedule(this.#began + interval / 2 + behind, controlInterval) };
    });
    while (!signal.aborted) {
      for (const dueAt of load.due()) this.#sendSome(dueAt);
      for (const { kind, schedule } of controls) for (const dueAt of schedule.due()) this.#send(kind, dueAt);
      if (performance.now() - renewedAt > TOKEN_MS) {
        renewedAt = performance.now();
        await this.#renewToken();
      }
      await delay(TICK_MS);
    }
    await Promise.all(this.#inFlight);
    this.#agent.destroy();
    this.#controlAgent.destroy();
  }

  burst(count) {
    for (let begun = 0; begun < count; begun++) this.#sendSome(performance.now());
  }

  /** The number of connections to the service. */
  get connections() {
    const { sockets, freeSockets } = this.#agent;
    return [sockets, freeSockets].flatMap((each) => Object.values(each)).flat().length;
  }

  get inFlight() {
    return this.#inFlight.size;
  }

  async #renewToken() {
    this.#token = await this.#newToken();
  }

  #sendSome(dueAt) {
    this.sent += 1;
    this.#send(this.#rotation.next(), dueAt);
  }

  #send(kind, dueAt) {
    const work = this.#perform(kind)
      .then(
        (problem) => problem,
        (error) => error.code ?? error.message,
      )
      .then((problem) => {
        const now = performance.now();
        if (problem === undefined) this.latencies.push([kind, (dueAt - this.#began) / 1000, now - dueAt]);
        else this.unexpected.set(`${kind}: ${problem}`, (this.unexpected.get(`${kind}: ${problem}`) ?? 0) + 1);
        this.#inFlight.delete(work);
      });
    this.#inFlight.add(work);
  }

  async #perform(kind) {
    switch (kind) {
      case 'json':
        return this.#upload('application/json', smallJson(this.#uploads));
      case 'file':
        return this.#upload('text/csv', Buffer.from(randomBytes(2 * KIB).toString('hex')), { 'Idempotency-Key': `soak-${this.#uploads}` });
      case 'form':
        return this.#upload(`multipart/form-data; boundary=${BOUNDARY}`, formOf(randomBytes(40 * KIB)));
      case 'large':
        return this.#upload('application/octet-stream', randomBytes(KIB * KIB));
      case 'find':
        return this.#known.length === 0 ? undefined : this.#expect(200, 'GET', `/uploads/${this.#someKnown().id}`);
      case 'content':
        return this.#fetchContent();
      case 'list':
        return this.#expect(200, 'GET', '/uploads');
      case 'users':
        return this.#expect(200, 'GET', '/idpManagementBackend/users');
      case 'roles':
        return this.#expect(200, 'GET', '/idpManagementBackend/roles');
      case 'assign':
        return this.#expect(200, 'POST', '/idpManagementBackend/assign-role', { user_id: this.#someUser(), role_id: this.#role });
      case 'update':
        return this.#expect(200, 'POST', '/idpManagementBackend/update-user', { user_id: this.#someUser(), new_name: `User ${this.#random.below(1_000)}` });
      case 'remove': {
        const id = this.#removable.shift();
        return id === undefined ? undefined : this.#expect(204, 'DELETE', `/uploads/${id}`);
      }
      case 'control read':
        return this.#expectOfControl('GET', '/memory');
      case 'control fetch':
        return this.#expectOfControl('GET', '/stored');
      case 'control write':
        return this.#expectOfControl('POST', '/stored', smallJson(this.#uploads));
      case 'unauthorized': {
        const { status } = await this.#ask('GET', '/idpManagementBackend/users');
        return status === 403 ? undefined : status;
      }
      default: {
        const { status } = await this.#ask('POST', `${UPLOAD}?customer_id=c`, { 'Content-Type': 'application/json' }, Buffer.from('{}'));
        return status === 400 ? undefined : status;
      }
    }
  }

  async #upload(type, body, headers = {}) {
    const number = ++this.#uploads;
    const path = `${UPLOAD}?customer_id=customer-${number % CUSTOMERS}&filename=load-${number}.csv&manufacturer=Acme`;
    const answer = await this.#ask('POST', path, { ...headers, 'Content-Type': type }, body);
    if (answer.status !== 200) return answer.status;
    const id = answer.headers['x-upload-id'];
    if (number % REMOVED_SHARE === 0) this.#removable.push(id);
    else if (type === 'text/csv') this.#known.push({ id, sha256: sha256(body) });
    if (this.#known.length > MOST_KNOWN) this.#known.shift();
    return undefined;
  }

  async #fetchContent() {
    if (this.#known.length === 0) return undefined;
    const { id, sha256: expected } = this.#someKnown();
    const { status, body } = await this.#ask('GET', `/uploads/${id}/content`, this.#authorization());
    if (status !== 200) return status;
    return sha256(body) === expected ? undefined : 'other bytes';
  }

  async #command(path, members) {
    const { status, body } = await this.#ask('POST', `/idpManagementBackend${path}`, { ...this.#authorization(), 'Content-Type': 'application/json' }, Buffer.from(JSON.stringify(members)));
    if (status !== 201) throw new Error(`${path} was answered with ${status}: ${body}`);
    return JSON.parse(body);
  }

  async #expect(expected, method, path, members) {
    const type = members && { 'Content-Type': 'application/json' };
    const { status } = await this.#ask(method, path, { ...this.#authorization(), ...type }, members && Buffer.from(JSON.stringify(members)));
    return status === expected ? undefined : status;
  }

  async #expectOfControl(method, path, body) {
    const { status } = await ask(this.#controlAgent, this.#control.url + path, method, {}, body);
    return status === 200 ? undefined : status;
  }

  #authorization() {
    return { Authorization: `Bearer ${this.#token}` };
  }

  #someKnown() {
    return this.#known[this.#random.below(this.#known.length)];
  }

  #someUser() {
    return this.#users[this.#random.below(USERS)];
  }

  #ask(method, path, headers = {}, body = undefined) {
    return ask(this.#agent, this.#service.url + path, method, headers, body);
  }
}

/** Says which requests are due at a constant rate. Times and the interval are in milliseconds. */
class Schedule {
  #next;
  #interval;

  constructor(first, interval) {
    this.#next = first;
    this.#interval = interval;
  }

  /** Yields the due times that have passed since the last call. */
  *due() {
    for (const now = performance.now(); this.#next <= now; this.#next += this.#interval) yield this.#next;
  }
}

/**
 * Names kinds in turn, each as often as its weight says and at even distances. If rare kinds came at random, a quarter
 * with more pages of uploads would have more connections to the store.
 */
class Rotation {
  #kinds;
  #total = 0;

  constructor(weights) {
    this.#kinds = Object.entries(weights).map(([kind, weight]) => ({ kind, weight, credit: 0 }));
    for (const { weight } of this.#kinds) this.#total += weight;
  }

  next() {
    let richest;
    for (const each of this.#kinds) {
      each.credit += each.weight;
      if (!richest || each.credit > richest.credit) richest = each;
    }
    richest.credit -= this.#total;
    return richest.kind;
  }
}

function ask(agent, url, method, headers, body) {
  return new Promise((resolve, reject) => {
    const length = body && { 'Content-Length': String(body.length) };
    const sent = request(url, { method, headers: { ...headers, ...length }, agent });
    sent.once('error', reject).once('response', (answer) => {
      buffer(answer).then((received) => resolve({ status: answer.statusCode, headers: answer.headers, body: received }), reject);
    });
    sent.end(body);
  });
}

const smallJson = (number) => Buffer.from(JSON.stringify({ additional_data: `reading ${number}` }));

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

const formOf = (file) =>
  Buffer.concat([
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="load.bin"\r\n\r\n`),
    file,
    Buffer.from(`\r\n--${BOUNDARY}--\r\n`),
  ]);
