import { Agent, request } from 'undici';
import { startKeycloak } from '../../test/servers/keycloak.mjs';
import { PERMISSIONS } from '../../dist/authentication/permissions.js';
import * as realm from '../../dist/identity-management/adapters/out/keycloak/realm.js';

const REALM = 'loads';
const AUDIENCE = 'load-data-api';
const SERVICE = { clientId: 'load-data-service', secret: 'service-secret' };
const OPERATOR = { clientId: 'operator', secret: 'operator-secret' };

/**
 * Java options for a Keycloak that is measured: memory for 100,000 users, and no restriction to the fast-starting
 * compiler, which the tests use.
 */
export const MEASURED = ['-Xms1g', '-Xmx3g'];
const TOKEN_SECONDS = 3600;
const CONNECTIONS = 8;
/** How many users one request imports. With more, the import of each user takes longer. */
const USERS_AT_ONCE = 20;

/** The realm of the bench and of tests under load, in a Keycloak of its own. */
export class Realm {
  #server;
  #agent = new Agent({ connections: CONNECTIONS });
  roles = 0;

  static async start(virtualMachine) {
    const started = new Realm();
    started.#server = await startKeycloak({ realm: representation(), virtualMachine });
    return started;
  }

  get pid() {
    return this.#server.pid;
  }

  get endpoint() {
    return this.#server.endpoint;
  }

  get url() {
    return `${this.endpoint}/realms/${REALM}`;
  }

  get adminUrl() {
    return `${this.endpoint}/admin/realms/${REALM}`;
  }

  variables(address) {
    return {
      IDENTITY_PROVIDER: 'keycloak',
      KEYCLOAK_URL: address,
      KEYCLOAK_REALM: REALM,
      KEYCLOAK_CLIENT_ID: SERVICE.clientId,
      KEYCLOAK_CLIENT_SECRET: SERVICE.secret,
      OIDC_ISSUER: this.url,
    };
  }

  serviceToken() {
    return this.#token(SERVICE);
  }

  operatorToken() {
    return this.#token(OPERATOR);
  }

  /** Adds a client for the service, as docs/replacing-secrets.md describes. Resolves to the client's secret. */
  async addClient(clientId) {
    return (await this.#server.setUp({ KEYCLOAK_CLIENT_ID: clientId })).KEYCLOAK_CLIENT_SECRET;
  }

  async removeClient(clientId) {
    const [{ id }] = await this.#server.administer('GET', `/clients?clientId=${clientId}`);
    await this.#server.administer('DELETE', `/clients/${id}`);
  }

  async fill({ roles, users }, { signal, show }) {
    const token = await this.serviceToken();
    const ask = (method, path, body) => {
      signal.throwIfAborted();
      return this.#ask(token, method, path, body);
    };
    await inParallel(range(this.roles, roles), async (number) => {
      show(`${number} of ${roles} roles made`);
      await ask('POST', '/roles', role(number));
      this.roles++;
    });
    const numbers = range(await ask('GET', '/users/count'), users);
    const batches = Array.from({ length: Math.ceil(numbers.length / USERS_AT_ONCE) }, (_, batch) =>
      numbers.slice(batch * USERS_AT_ONCE, (batch + 1) * USERS_AT_ONCE),
    );
    await inParallel(batches, async (batch) => {
      show(`${batch[0]} of ${users} users made`);
      await ask('POST', '/partialImport', { ifResourceExists: 'FAIL', users: batch.map(user) });
    });
  }

  /** Calls the Admin API with a token of the service's own client. Rejects if the status is 300 or higher. */
  async administer(method, path) {
    return this.#ask(await this.serviceToken(), method, path);
  }

  async keySet() {
    return (await fetch(`${this.url}/protocol/openid-connect/certs`)).json();
  }

  async stop() {
    await this.#agent.destroy();
    await this.#server.stop();
  }

  async #ask(token, method, path, body) {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const options = { dispatcher: this.#agent, method, headers, body: body && JSON.stringify(body) };
    const answer = await request(this.adminUrl + path, options);
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  async #token({ clientId, secret }) {
    const body = new URLSearchParams({ grant_type: 'client_credentials', client_id: clientId, client_secret: secret });
    const answer = await fetch(`${this.url}/protocol/openid-connect/token`, { method: 'POST', body });
    return (await answer.json()).access_token;
  }
}

function representation() {
  const account = ({ clientId }) => ({ username: `service-account-${clientId}`, enabled: true, serviceAccountClientId: clientId });
  return {
    ...realm.newRealm(REALM),
    accessTokenLifespan: TOKEN_SECONDS,
    clients: [
      { clientId: AUDIENCE, ...realm.API_CLIENT },
      { ...SERVICE, ...realm.SERVICE_CLIENT },
      { ...OPERATOR, serviceAccountsEnabled: true, protocolMappers: realm.protocolMappers(AUDIENCE) },
    ],
    roles: { client: { [AUDIENCE]: PERMISSIONS.map((name) => ({ name })) } },
    users: [
      { ...account(SERVICE), clientRoles: { [realm.REALM_MANAGEMENT]: realm.SERVICE_RIGHTS } },
      { ...account(OPERATOR), clientRoles: { [AUDIENCE]: PERMISSIONS }, attributes: { customer_id: ['*'] } },
    ],
  };
}

const role = (number) => realm.composedRole(`Role ${number}`, AUDIENCE, [PERMISSIONS[number % PERMISSIONS.length]]);

/** A user to import. It names the realm's default role, because an import gives a user only the roles that it names. */
const user = (number) => {
  const email = `user${number}@grid.example`;
  return { username: email, email, firstName: `User ${number}`, enabled: true, realmRoles: [`default-roles-${REALM}`] };
};

const range = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index);

async function inParallel(items, work) {
  const rest = items.values();
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      for (const item of rest) await work(item);
    }),
  );
}
