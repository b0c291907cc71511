import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { PERMISSIONS } from '../../../../authentication/permissions.js';
import { ApiClient } from '../provider-api/api-client.js';
import { Operation } from '../provider-api/operation.js';
import { type Requirement, lacking, type Members } from '../provider-requirements/requirement.js';
import { realmUrl } from './realm-url.js';
import {
  ADMINISTRATOR_ROLE,
  composedRole,
  newRealm,
  REALM_MANAGEMENT,
  ROLE_ATTRIBUTE,
  SERVICE_CLIENT,
  SERVICE_RIGHTS,
  SWAGGER_UI_CLIENT,
  SWAGGER_UI_CLIENT_ID,
  swaggerUiAddresses,
  UPDATE_PASSWORD,
} from './realm.js';
import { NAMED, NAMED_ONES, RealmAdmin } from './realm-admin.js';
import { apiClient, defaultClientScope, permissions, userProfile } from './realm-requirements.js';

export interface RealmSetupOptions {
  readonly url: string;
  readonly realm: string;
  readonly audience: string;
  readonly clientId: string;
  /** The secret for a new client of the service. If undefined, Keycloak generates one. */
  readonly clientSecret: string | undefined;
  /** The service's URL for clients, without a trailing slash. */
  readonly baseUrl: string;
  /** The PUBLIC_URL of the service. If undefined, an existing Swagger UI client keeps its addresses. */
  readonly publicUrl: string | undefined;
  /** The credentials of an administrator of Keycloak, in the realm `master`. */
  readonly credentials: { readonly username: string; readonly password: string };
}

const REALM = z.looseObject({ enabled: z.boolean().nullish() });
const ROLE = NAMED.extend({ attributes: z.record(z.string(), z.array(z.string().nullable())).nullish() });
const USERS = z.array(z.object({ id: z.string(), requiredActions: z.array(z.string()).default([]) }));
const CREDENTIALS = z.array(z.object({ type: z.string() }));
const SCOPE_NAMES = z.array(z.string()).default([]);
const SECRET = z.object({ value: z.string().optional() });
const DISCOVERY = z.object({ issuer: z.string() });

/**
 * Finds and makes the changes that a realm needs for the service. Also adds a client for Swagger UI, a role with all
 * permissions and, on request, a user with that role. Removes nothing but rules of the user profile that are defects
 * (`profileDefects`).
 */
export class RealmSetup {
  private readonly serverApi: ApiClient;
  private readonly realmApi: ApiClient;
  private readonly server: RealmAdmin;
  private readonly admin: RealmAdmin;

  constructor(private readonly options: RealmSetupOptions) {
    this.serverApi = this.connect('');
    this.realmApi = this.connect(`/admin/realms/${encodeURIComponent(options.realm)}`);
    const operation = new Operation();
    this.server = new RealmAdmin(this.serverApi, () => operation);
    this.admin = new RealmAdmin(this.realmApi, () => operation);
  }

  /**
   * The requirements, in the order in which the changes must be made.
   *
   * @param administrator the e-mail of a user who gets the role with all permissions, and is created if missing.
   */
  parts(administrator?: string): Requirement[] {
    const { audience, clientSecret, baseUrl, publicUrl } = this.options;
    const addresses = swaggerUiAddresses(baseUrl);
    return [
      this.realm(),
      apiClient(this.admin, audience),
      permissions(this.admin, audience),
      defaultClientScope(this.admin, audience),
      userProfile(this.admin),
      this.client(this.options.clientId, SERVICE_CLIENT, { standardFlowEnabled: false, ...(clientSecret !== undefined && { secret: clientSecret }) }),
      this.serviceRights(),
      this.client(SWAGGER_UI_CLIENT_ID, { ...SWAGGER_UI_CLIENT, ...(publicUrl !== undefined && addresses) }, addresses),
      this.swaggerUiScope(),
      this.administratorRole(),
      ...(administrator === undefined ? [] : [this.administrator(administrator)]),
    ];
  }

  /** The rights over the realm that the service's account was given directly but doesn't need. */
  async needlessRights(): Promise<readonly string[]> {
    const rights = (await this.rights('')).map(({ name }) => name);
    return rights.filter((right) => !(SERVICE_RIGHTS as readonly string[]).includes(right));
  }

  /**
   * The secret of the service's client. Keycloak generates one if there is none.
   *
   * @throws ProviderError when there is no such client; otherwise as `ApiClient.get` and `ProviderAdmin.send`.
   */
  async clientSecret(): Promise<string> {
    const path = `${await this.admin.pathOfClient(this.options.clientId)}/client-secret`;
    const { value } = await this.admin.get(path, SECRET);
    if (value !== undefined) return value;
    await this.admin.send('POST', path);
    return (await this.admin.get(path, SECRET)).value ?? '';
  }

  /** The issuer of the realm's tokens, as reported at Keycloak's `url`. Another address may report another issuer. */
  async issuer(): Promise<string> {
    const path = `/realms/${encodeURIComponent(this.options.realm)}/.well-known/openid-configuration`;
    return (await this.server.get(path, DISCOVERY)).issuer;
  }

  async close(): Promise<void> {
    await Promise.all([this.serverApi.close(), this.realmApi.close()]);
  }

  private connect(path: string): ApiClient {
    const { url, credentials } = this.options;
    const grant = { grant_type: 'password', client_id: 'admin-cli', ...credentials };
    const token = { url: `${realmUrl({ url, realm: 'master' })}/protocol/openid-connect/token`, grant };
    return new ApiClient({ provider: 'Keycloak', url: url + path, token });
  }

  private realm(): Requirement {
    const { realm } = this.options;
    const name = `realm ${realm}`;
    const make = () => this.server.send('POST', '/admin/realms', newRealm(realm));
    return {
      name,
      changes: async () => {
        const present = await this.admin.find('/', REALM);
        if (!present) return [{ text: `+ ${name}`, make }];
        if (present.enabled === true) return [];
        return [{ text: `~ ${name}: enabled`, make: () => this.admin.send('PUT', '/', { enabled: true }) }];
      },
    };
  }

  private client(clientId: string, wanted: Members, atFirst: Members = {}): Requirement {
    const name = `client ${clientId}`;
    const make = () => this.admin.send('POST', '/clients', { clientId, ...wanted, ...atFirst });
    return {
      name,
      changes: async () => {
        const present = await this.admin.client(clientId);
        if (!present) return [{ text: `+ ${name}`, make }];
        const change = lacking(present, wanted);
        const members = Object.keys(change);
        if (members.length === 0) return [];
        return [{ text: `~ ${name}: ${members.join(', ')}`, make: () => this.admin.send('PUT', `/clients/${present.id}`, change) }];
      },
    };
  }

  private serviceRights(): Requirement {
    const { clientId } = this.options;
    const give = async (right: string): Promise<void> => {
      const role = (await this.admin.rolesOfClient(REALM_MANAGEMENT)).find(({ name }) => name === right);
      await this.admin.send('POST', (await this.rightsPath()) ?? '', [role]);
    };
    return {
      name: `rights of client ${clientId}`,
      changes: async () => {
        const given = new Set((await this.rights('/composite')).map(({ name }) => name));
        const missing = SERVICE_RIGHTS.filter((right) => !given.has(right));
        return missing.map((right) => ({ text: `+ right ${right} of client ${clientId}`, make: () => give(right) }));
      },
    };
  }

  /** The rights of the service's account. With `/composite`, rights implied by other rights are included. */
  private async rights(kind: '' | '/composite'): Promise<readonly { name: string }[]> {
    const path = await this.rightsPath();
    return path === undefined ? [] : await this.admin.get(path + kind, NAMED_ONES);
  }

  private async rightsPath(): Promise<string | undefined> {
    const service = await this.admin.client(this.options.clientId);
    const management = await this.admin.client(REALM_MANAGEMENT);
    if (service?.serviceAccountsEnabled !== true || !management) return undefined;
    const account = await this.admin.get(`/clients/${service.id}/service-account-user`, z.object({ id: z.string() }));
    return `/users/${account.id}/role-mappings/clients/${management.id}`;
  }

  /** Gives Swagger UI's client the default client scope, which Keycloak gives only to clients created later. */
  private swaggerUiScope(): Requirement {
    const { audience } = this.options;
    const name = `client scope ${audience} of client ${SWAGGER_UI_CLIENT_ID}`;
    const make = async (): Promise<void> => {
      const scope = (await this.admin.get('/client-scopes', NAMED_ONES)).find((one) => one.name === audience);
      await this.admin.send('PUT', `${await this.admin.pathOfClient(SWAGGER_UI_CLIENT_ID)}/default-client-scopes/${scope?.id ?? ''}`);
    };
    return {
      name,
      changes: async () => {
        const client = await this.admin.client(SWAGGER_UI_CLIENT_ID);
        const isGiven = !client || SCOPE_NAMES.parse(client.defaultClientScopes).includes(audience);
        return isGiven ? [] : [{ text: `+ ${name}`, make }];
      },
    };
  }

  private administratorRole(): Requirement {
    const { audience } = this.options;
    const path = `/roles/${ADMINISTRATOR_ROLE}`;
    const name = `role ${ADMINISTRATOR_ROLE}`;
    const wanted = composedRole(ADMINISTRATOR_ROLE, audience, PERMISSIONS);
    const make = () => this.admin.send('POST', '/roles', wanted);
    const add = async (permission: string): Promise<void> => {
      const role = (await this.admin.rolesOfClient(audience)).find((one) => one.name === permission);
      await this.admin.send('POST', `${path}/composites`, [role]);
    };
    return {
      name,
      changes: async () => {
        const present = await this.admin.find(path, ROLE);
        if (!present) return [{ text: `+ ${name}`, make }];
        const { attributes } = lacking(present, { attributes: wanted.attributes });
        const change = { name: ADMINISTRATOR_ROLE, attributes };
        const marking = { text: `~ ${name}: ${ROLE_ATTRIBUTE}`, make: () => this.admin.send('PUT', path, change) };
        const api = await this.admin.client(audience);
        const composites = api ? await this.admin.get(`${path}/composites/clients/${api.id}`, NAMED_ONES) : [];
        const missing = PERMISSIONS.filter((permission) => !composites.some((role) => role.name === permission));
        return [
          ...(attributes === undefined ? [] : [marking]),
          ...missing.map((permission) => ({ text: `+ permission ${permission} of ${name}`, make: () => add(permission) })),
        ];
      },
    };
  }

  private administrator(email: string): Requirement {
    const user = { username: email, email, firstName: email, enabled: true, requiredActions: [UPDATE_PASSWORD] };
    // A password policy may require upper case, lower case, digits and others, so the password has one of each.
    const password = `Aa1-${randomBytes(16).toString('base64url')}`;
    const present = async () => (await this.admin.find(`/users?exact=true&email=${encodeURIComponent(email)}`, USERS))?.[0];
    const path = async (): Promise<string> => `/users/${(await present())?.id ?? ''}`;
    const setPassword = async (): Promise<void> => {
      await this.admin.send('PUT', `${await path()}/reset-password`, { type: 'password', value: password, temporary: true });
    };
    const giveRole = async (): Promise<void> => {
      const role = await this.admin.get(`/roles/${ADMINISTRATOR_ROLE}`, NAMED);
      await this.admin.send('POST', `${await path()}/role-mappings/realm`, [role]);
    };
    const creation = { text: `+ user ${email}`, make: () => this.admin.send('POST', '/users', user) };
    const temporary = {
      text: `+ password of user ${email}`,
      make: setPassword,
      note: () => Promise.resolve(`The password of ${email} is ${password} until the first login.`),
    };
    // The role is given last, as the sign that the user is complete: the next run repeats a failed setting of the
    // password.
    const given = { text: `+ role ${ADMINISTRATOR_ROLE} of user ${email}`, make: giveRole };
    return {
      name: `user ${email}`,
      changes: async () => {
        const found = await present();
        if (!found) return [creation, temporary, given];
        const roles = await this.admin.get(`/users/${found.id}/role-mappings/realm/composite`, NAMED_ONES);
        if (roles.some(({ name }) => name === ADMINISTRATOR_ROLE)) return [];
        const credentials = await this.admin.get(`/users/${found.id}/credentials`, CREDENTIALS);
        const hasPassword = credentials.some(({ type }) => type === 'password');
        return found.requiredActions.includes(UPDATE_PASSWORD) && !hasPassword ? [temporary, given] : [given];
      },
    };
  }
}
