import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';

const CONNECTIONS = 2;
const LEAST_PAUSE_MS = 50;
const CREATED = 201;

/**
 * Clients that create roles and users, and list the roles, through a proxy until they are stopped. None repeats a
 * request, because these operations have no idempotency keys.
 */
export class People {
  sent = 0;
  /** @type {import('./clients.mjs').Failure[]} */
  failures = [];
  #url;
  #token;
  #label;
  #random;
  #pauseMs;
  #isGoing = true;
  #agent = new Agent({ connections: CONNECTIONS });
  #created = { roles: new Set(), users: new Set() };
  #roleIds = [];
  #numbers = 0;
  #ended;

  /**
   * @param {number} port where the proxy listens
   * @param {string} token an access token with all permissions
   * @param {string} label a word that no other clients of the same provider have, in names and e-mails
   * @param {import('../../dist/testing/random.js').Random} random
   * @param {number} pauseMs how long a client waits after a request, at least LEAST_PAUSE_MS
   */
  constructor(port, token, label, random, pauseMs) {
    this.#url = `http://127.0.0.1:${port}/idpManagementBackend`;
    this.#token = token;
    this.#label = label;
    this.#random = random;
    this.#pauseMs = pauseMs;
    this.#ended = Promise.all(Array.from({ length: CONNECTIONS }, () => this.#work()));
  }

  get acknowledged() {
    return this.#created.roles.size + this.#created.users.size;
  }

  /**
   * Stops the clients, and then compares the lists of roles and users with what was created.
   *
   * @returns {Promise<{ lost: string[], doubled: string[] }>} a sentence about each role and user that was created but
   *   isn't listed, and about each that is listed twice
   */
  async stop() {
    this.#isGoing = false;
    await this.#ended;
    const roles = await this.#list('roles');
    const users = await this.#list('users');
    await this.#agent.destroy();
    const found = { roles: roles.map(({ name }) => name), users: users.map(({ email }) => email) };
    const lost = [];
    const doubled = [];
    for (const [kind, names] of Object.entries(found)) {
      for (const name of this.#created[kind]) if (!names.includes(name)) lost.push(`${name} is not in the list of ${kind}`);
      for (const name of new Set(names)) if (names.indexOf(name) !== names.lastIndexOf(name)) doubled.push(`${name} is twice in the list of ${kind}`);
    }
    return { lost, doubled };
  }

  async #work() {
    while (this.#isGoing) {
      const name = `${this.#label}-${++this.#numbers}`;
      await this.#random.pick([() => this.#createRole(name), () => this.#createUser(`${name}@grid.example`), () => this.#list('roles')])();
      await delay(Math.max(LEAST_PAUSE_MS, this.#pauseMs));
    }
  }

  async #createRole(name) {
    const role = await this.#ask('POST', '/create-role', CREATED, { role_name: name, permissions: ['read:users'] });
    if (!role) return;
    this.#created.roles.add(name);
    this.#roleIds.push(role.role_id);
  }

  async #createUser(email) {
    const roles = this.#roleIds.slice(-1);
    if (await this.#ask('POST', '/create-user', CREATED, { email, name: email, roles })) this.#created.users.add(email);
  }

  async #list(kind) {
    return (await this.#ask('GET', `/${kind}`, 200))?.[kind] ?? [];
  }

  async #ask(method, path, expected, body) {
    const began = performance.now();
    this.sent += 1;
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
    const options = { dispatcher: this.#agent, method, headers, body: body && JSON.stringify(body) };
    try {
      const answer = await request(this.#url + path, options);
      const answered = await answer.body.json();
      if (answer.statusCode === expected) return answered;
      this.#fail(began, `${path} ${answer.statusCode}`);
    } catch ({ code, message }) {
      this.#fail(began, `${path} ${code ?? message}`);
    }
    return undefined;
  }

  #fail(began, what) {
    this.failures.push({ began, ended: performance.now(), what });
  }
}
