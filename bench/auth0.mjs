import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startAuth0StandIn } from 'load-data-service/testing';
import { PERMISSIONS } from '../dist/authentication/permissions.js';
import { Progress } from './support/progress.mjs';
import { withServices } from './support/service.mjs';

const FREE = { burst: 2, perSecond: 2 };
const FASTER = { burst: 15, perSecond: 15 };
const AT_ONCE = 50;
const STORM = { commandsPerSecond: 15, seconds: 30 };
/** The number of users in the list, which the service reads in five pages. */
const LISTED_USERS = 450;
const HEALTH_EVERY_MS = 5_000;
const CALLER_LEAVES_AFTER_SECONDS = 10;
const REMOVED_WITHIN_SECONDS = 60;
const ROLE_PERMISSIONS = ['read:roles'];

/**
 * Measures how the service answers when its callers request more than the rate limit of an Auth0 tenant allows. Checks
 * that the tenant has exactly the users and roles whose creation was acknowledged.
 */
export default async function auth0() {
  const progress = new Progress();
  const rows = [];
  for (const [title, run] of Object.entries(ROWS)) {
    progress.show(title);
    rows.push({ title, ...(await withServices((services) => withTenant(services, run))) });
  }
  progress.clear();
  console.table(Object.fromEntries(rows.map(({ title, columns }) => [title, columns])));
  return rows.every(({ ok }) => ok);
}

const ROWS = {
  '50 create-user with a role at once, 2/s': (tenant) => atOnce(tenant, FREE, 'create-user'),
  '50 create-user with a role at once, 15/s': (tenant) => atOnce(tenant, FASTER, 'create-user'),
  '50 create-role at once, 2/s': (tenant) => atOnce(tenant, FREE, 'create-role'),
  '50 create-role at once, 15/s': (tenant) => atOnce(tenant, FASTER, 'create-role'),
  '15 create-user each second for 30 s, 2/s': (tenant) => storm(tenant, FREE, 1),
  'the same, by two processes': (tenant) => storm(tenant, FREE, 2),
};

async function atOnce(tenant, rateLimit, operation) {
  const [service] = await tenant.startServices(1);
  return tenant.measured(rateLimit, async () => {
    await Promise.all(Array.from({ length: AT_ONCE }, () => tenant.create(service, operation)));
    return {};
  });
}

/**
 * Sends 15 create-user commands a second to the services for 30 s. Meanwhile one list of users is read, and readiness
 * is checked every 5 s. The stand-in for Auth0 loses its answers to three creations, and not just to one, because a
 * lost answer may be a 429, which created nothing.
 */
async function storm(tenant, rateLimit, processes) {
  const services = await tenant.startServices(processes);
  tenant.standIn.loadUsers(LISTED_USERS);
  return tenant.measured(rateLimit, async () => {
    const listing = tenant.list(services[0]);
    const [commands, looks] = [[], []];
    const { commandsPerSecond, seconds } = STORM;
    const asking = setInterval(() => commands.push(tenant.create(services[commands.length % processes], 'create-user')), 1_000 / commandsPerSecond);
    const looking = setInterval(() => looks.push(tenant.isReady(services[0])), HEALTH_EVERY_MS);
    tenant.standIn.fail('POST /api/v2/users', { kind: 'lost-answer' }, { skip: 5, times: 3 });
    await delay(seconds * 1_000);
    clearInterval(asking);
    clearInterval(looking);
    await Promise.all(commands);
    const ready = await Promise.all(looks);
    const listed = await listing;
    return {
      isWell: listed >= LISTED_USERS && ready.every(Boolean),
      columns: { list: `${listed} users`, ready: `${ready.filter(Boolean).length} of ${ready.length}`, ...(processes > 1 && { 'made by each': tenant.madeByEach(services) }) },
    };
  });
}

async function withTenant(services, run) {
  const tenant = new Tenant(services);
  await tenant.start();
  try {
    return await run(tenant);
  } finally {
    await tenant.standIn.stop();
  }
}

class Tenant {
  #services;
  #token;
  #roleId;
  #answers = [];
  #refused = 0;
  #names = 0;

  constructor(services) {
    this.#services = services;
  }

  async start() {
    const onExchange = ({ answer }) => (this.#refused += answer?.status === 429 ? 1 : 0);
    this.standIn = await startAuth0StandIn({ apiScopes: PERMISSIONS, onExchange });
    this.#token = await this.standIn.issueToken({ permissions: PERMISSIONS });
  }

  /** Lists the roles through each service, so that each knows the role of new users. */
  async startServices(count) {
    const { domain, service } = this.standIn;
    const variables = {
      IDENTITY_PROVIDER: 'auth0',
      AUTH0_DOMAIN: domain,
      AUTH0_CLIENT_ID: service.clientId,
      AUTH0_CLIENT_SECRET: service.clientSecret,
      OIDC_AUDIENCE: 'load-data-api',
    };
    const directories = Array.from({ length: count }, (_, index) => join(this.#services.directory, `data-${index}`));
    const started = await Promise.all(directories.map((directory) => this.#services.start({ ...variables, DATA_DIR: directory })));
    this.#roleId = (await this.#post(started[0], 'create-role', { role_name: 'known', permissions: ROLE_PERMISSIONS })).id;
    for (const each of started) await this.list(each, 'roles');
    return started;
  }

  /**
   * Runs `work` while the tenant has the rate limit. Then waits, for at most a minute, until nothing that failed
   * creations left behind remains in the tenant.
   *
   * @returns the row's figures. `calls` are the calls to the Management API while the rate limit applied.
   */
  async measured(rateLimit, work) {
    const before = new Set(Object.values(await this.#present()).flat());
    const callsBefore = this.#calls();
    this.standIn.settings.rateLimit = rateLimit;
    const { isWell = true, columns } = await work();
    const calls = this.#calls() - callsBefore;
    this.standIn.settings.rateLimit = undefined;
    const made = this.#answers.filter(({ status }) => status === 201).map(({ id }) => id);
    const { lost, doubled } = await this.#compared(made, before);
    const others = this.#answers.filter(({ status, retryAfter }) => status !== 201 && !(status === 503 && retryAfter > 0)).length;
    const longest = Math.max(...this.#answers.map(({ seconds }) => seconds));
    const ok = isWell && lost === 0 && doubled === 0 && others === 0 && made.length > 0 && longest <= CALLER_LEAVES_AFTER_SECONDS + 1;
    return {
      ok,
      columns: {
        bucket: `${rateLimit.burst}, ${rateLimit.perSecond}/s`,
        made: made.length,
        '503 with Retry-After': this.#answers.length - made.length - others,
        'other answers': others,
        'longest wait': `${longest.toFixed(1)} s`,
        calls,
        'of them 429': this.#refused,
        lost,
        doubled,
        ...columns,
        '': ok ? 'ok' : 'MISSED',
      },
    };
  }

  async create(service, operation) {
    const name = `n${++this.#names}`;
    const fields = operation === 'create-user' ? { email: `${name}@grid.example`, roles: [this.#roleId] } : { role_name: name, permissions: ROLE_PERMISSIONS };
    this.#answers.push({ service, ...(await this.#post(service, operation, fields)) });
  }

  /** @returns the number of distinct users or roles that the service lists; 0 if the list breaks off or is refused. */
  async list(service, member = 'users') {
    const response = await fetch(`${service.url}/idpManagementBackend/${member}`, { headers: { authorization: `Bearer ${this.#token}` } });
    const body = await response.json().catch(() => ({}));
    return response.status === 200 ? new Set(body[member]?.map(({ user_id, role_id }) => user_id ?? role_id)).size : 0;
  }

  async isReady(service) {
    return (await fetch(`${service.url}/health/ready`)).status === 200;
  }

  madeByEach(services) {
    return services.map((service) => this.#answers.filter((answer) => answer.service === service && answer.status === 201).length).join(', ');
  }

  async #post(service, operation, fields) {
    const begin = performance.now();
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
    const response = await fetch(`${service.url}/idpManagementBackend/${operation}`, { method: 'POST', headers, body: JSON.stringify(fields) });
    const { user_id, role_id } = await response.json();
    const seconds = (performance.now() - begin) / 1000;
    return { status: response.status, retryAfter: Number(response.headers.get('retry-after')), id: user_id ?? role_id, seconds };
  }

  #calls() {
    return this.standIn.count(/ \/api\/v2\//);
  }

  /**
   * Compares the tenant with `made`, the ids of users and roles whose creation the service acknowledged. `lost`: the
   * number of acknowledged ones that are missing or don't have the permissions. `doubled`: the number of ids
   * acknowledged twice, and of unacknowledged users and roles that are still there a minute later, when the services
   * should have removed them.
   */
  async #compared(made, before) {
    const end = performance.now() + REMOVED_WITHIN_SECONDS * 1_000;
    for (;;) {
      const { whole, partial } = await this.#present();
      const lost = made.filter((id) => !whole.includes(id)).length;
      const doubled = [...whole, ...partial].filter((id) => !before.has(id) && !made.includes(id)).length + made.length - new Set(made).size;
      if (doubled === 0 || performance.now() > end) return { lost, doubled };
      await delay(500);
    }
  }

  async #present() {
    const present = { whole: [], partial: [] };
    const note = (id, permissions) => present[permissions.join() === ROLE_PERMISSIONS.join() ? 'whole' : 'partial'].push(id);
    for (const { user_id } of await this.#all('users')) note(user_id, this.standIn.permissionsOf(user_id));
    for (const { id } of await this.#all('roles')) {
      note(id, (await this.#all('permissions', `roles/${id}/permissions`)).map(({ permission_name }) => permission_name));
    }
    return present;
  }

  async #all(member, path = member) {
    const headers = { authorization: `Bearer ${await this.standIn.issueManagementToken()}` };
    const items = [];
    for (let page = 0; ; page++) {
      const response = await fetch(`${this.standIn.domain}/api/v2/${path}?page=${page}&per_page=50&include_totals=true`, { headers });
      const answer = await response.json();
      items.push(...answer[member]);
      if (items.length >= answer.total) return items;
    }
  }
}
