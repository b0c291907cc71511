import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { processorSeconds } from '../support/processor-meter.mjs';
import { Services } from '../support/service.mjs';
import { MEASURED, Realm } from './realm.mjs';

const ROLES = 5_000;
const SOME_USERS = 1_000;
const SOME_ROLES = 200;
/** The length of the warm-up, after which the just-in-time compilers of Keycloak and service have little left to do. */
const WARM_UP_SECONDS = 20;

/** One Keycloak and the same processes of the service for all rounds, so that they are warm. */
export class Stage {
  #realm;
  #services;
  #replicas = [];
  #some;

  /** @param {number} replicas how many processes of the service share Keycloak */
  static async set(replicas) {
    const stage = new Stage();
    stage.#services = new Services(await mkdtemp(join(tmpdir(), 'load-data-bench-')));
    try {
      stage.#realm = await Realm.start(MEASURED);
      for (let replica = 0; replica < replicas; replica++) stage.#replicas.push(await stage.#start(stage.endpoint));
      return stage;
    } catch (error) {
      await stage.clear();
      throw error;
    }
  }

  get endpoint() {
    return this.#realm.endpoint;
  }

  /**
   * Fills the realm with the users that a contest needs, and lets each of its entrants that must be warm run its load
   * once.
   */
  async prepare(entrants, { show, ...context }) {
    const users = Math.max(...Object.values(entrants).map((entrant) => entrant.users));
    if (users > 0) await this.#realm.fill({ roles: ROLES, users }, { show, ...context });
    for (const [name, { load, warmUp }] of Object.entries(entrants)) {
      context.signal.throwIfAborted();
      show(`warming up, ${name}`);
      if (warmUp) await load({ ...context, seconds: Math.max(context.seconds, WARM_UP_SECONDS) });
    }
  }

  /** Of Keycloak's Admin API if `way` is `direct`, otherwise of each process of the service. */
  async access(way) {
    if (way === 'direct') return { urls: [this.#realm.adminUrl], token: await this.#realm.serviceToken() };
    return { urls: this.#replicas.map(({ url }) => `${url}/idpManagementBackend`), token: await this.#realm.operatorToken() };
  }

  /** Some users and roles of the realm. Every call returns the same. */
  async some() {
    const all = (path) => this.#realm.administer('GET', path);
    return (this.#some ??= {
      users: (await all(`/users?briefRepresentation=true&max=${SOME_USERS}`)).map(({ id }) => id),
      roles: (await all(`/roles?search=Role&first=0&max=${SOME_ROLES}`)).map(({ id, name }) => ({ id, name })),
    });
  }

  /** The number of users in the realm, or of roles. Roles that commands created don't count. */
  async count(member) {
    return member === 'users' ? this.#realm.administer('GET', '/users/count') : this.#realm.roles;
  }

  /** The processor time that Keycloak, and all processes of the service together, have used until now, in seconds. */
  async processorSeconds() {
    const replicas = this.#replicas.map(({ child }) => child.pid);
    return { keycloak: await processorSeconds([this.#realm.pid]), service: await processorSeconds(replicas) };
  }

  async issuer() {
    return { issuer: this.#realm.url, keySet: await this.#realm.keySet() };
  }

  async withFreshService(address, work) {
    const service = await this.#start(address);
    try {
      return await work(service, { token: await this.#realm.operatorToken() });
    } finally {
      await service.end('SIGTERM');
    }
  }

  async clear() {
    await this.#services.end();
    await this.#realm?.stop();
  }

  /** Starts a service in a new data directory, because only one process at a time can use a data directory. */
  async #start(address) {
    const data = await mkdtemp(join(this.#services.directory, 'data-'));
    return this.#services.start({ NODE_ENV: 'production', ...this.#realm.variables(address), DATA_DIR: data });
  }
}
