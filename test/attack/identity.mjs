import { setTimeout as delay } from 'node:timers/promises';
import { send } from './client.mjs';

export const ADMIN_SECRET = 'attack-attack-attack';
const PAUSE_MS = 150;
const ROLE_SHARE = 0.2;
const BASE = '/idpManagementBackend';

/**
 * Creates users and roles continuously until it is stopped. The service must list all whose creation it acknowledged.
 */
export class IdentityTraffic {
  #port;
  #model;
  #random;
  #token;
  #made = { users: new Set(), roles: new Set() };
  #count = 0;
  #isStopped = false;
  last;

  constructor(port, model, random) {
    this.#port = port;
    this.#model = model;
    this.#random = random;
    this.ended = this.#work();
  }

  get acknowledged() {
    return this.#made.users.size + this.#made.roles.size;
  }

  async stop() {
    this.#isStopped = true;
    await this.ended;
  }

  async createUser() {
    this.#count += 1;
    const answer = await this.#call('POST', '/create-user', { email: `user-${this.#count}@attack.example`, name: 'A user', roles: [] });
    const id = answer.status === 201 ? JSON.parse(answer.text).user_id : undefined;
    if (id) this.#made.users.add(id);
    return { ...answer, id };
  }

  /** Expects a user no longer, because the acknowledgement of the user is a finding already. */
  forget(id) {
    this.#made.users.delete(id);
  }

  /** Compares the listed users and roles with the acknowledged ones. The service must be ready. */
  async compare() {
    for (const [list, member] of [['users', 'user_id'], ['roles', 'role_id']]) {
      const { status, text } = await this.#call('GET', `/${list}`);
      if (status !== 200) {
        this.#model.find('identity', `GET /${list} was answered with ${status} ${text}`);
        continue;
      }
      const listed = new Set(JSON.parse(text)[list].map((each) => each[member]));
      const lost = [...this.#made[list]].filter((id) => !listed.has(id));
      if (lost.length > 0) this.#model.find('identity', `${lost.length} of ${this.#made[list].size} acknowledged ${list} are not listed, for example ${lost[0]}`);
    }
  }

  async #work() {
    while (!this.#isStopped) {
      const began = performance.now();
      try {
        this.last = this.#random.chance(ROLE_SHARE) ? await this.#createRole() : await this.createUser();
        const { status, text } = this.last;
        if (status !== 201 && this.#model.troublesSince(began).length === 0 && !this.#model.hasJumpedSince(began)) {
          this.#model.find('identity', `an identity operation was answered with ${status} ${text ?? ''}, and nothing was wrong`);
        }
      } catch (error) {
        if (!this.#model.troublesSince(began).some(({ breaks }) => breaks)) {
          this.#model.find('identity', `an identity operation was not answered (${error.code ?? error.message}), and nothing was done to the service`);
        }
      }
      await delay(PAUSE_MS);
    }
  }

  async #createRole() {
    this.#count += 1;
    const answer = await this.#call('POST', '/create-role', { role_name: `role ${this.#count}`, permissions: ['read:load'] });
    if (answer.status === 201) this.#made.roles.add(JSON.parse(answer.text).role_id);
    return answer;
  }

  /**
   * Sends a request. Renews the access token if it is refused, because a jump of the service's clock can make a token
   * invalid.
   */
  async #call(method, path, content) {
    const body = content && Buffer.from(JSON.stringify(content));
    const call = () => {
      const length = body && { 'Content-Type': 'application/json', 'Content-Length': body.length };
      return send(this.#port, { method, path: `${BASE}${path}`, headers: { Authorization: `Bearer ${this.#token}`, ...length }, body });
    };
    let answer = await call();
    if (answer.status === 403) {
      await this.#renewToken();
      answer = await call();
    }
    if (answer.status >= 400 && answer.text !== undefined) this.#model.checkError(answer.status, answer.text);
    return answer;
  }

  async #renewToken() {
    const body = Buffer.from('grant_type=client_credentials');
    const headers = {
      Authorization: `Basic ${Buffer.from(`admin:${ADMIN_SECRET}`).toString('base64')}`,
      'Content-Type': 'application/x-www-form-urlencoded',
      'Content-Length': body.length,
    };
    const { status, text } = await send(this.#port, { path: '/idp/token', headers, body });
    if (status === 200) this.#token = JSON.parse(text).access_token;
  }
}
