import { z } from 'zod';
import { PERMISSIONS } from '../../../../authentication/permissions.js';
import { ProviderError } from '../../../domain/errors.js';
import type { ApiClient } from '../provider-api/api-client.js';
import { Operation } from '../provider-api/operation.js';
import { type Change, type Requirement, lacking, type Members } from '../provider-requirements/requirement.js';
import { apiPart } from './api-requirement.js';
import { ApiScopes } from './api-scopes.js';
import { managementApi } from './management-api.js';
import { randomPassword } from './random-password.js';
import {
  ADMINISTRATOR_ROLE,
  SERVICE_APPLICATION,
  SERVICE_NAME,
  SERVICE_SCOPES,
  SWAGGER_UI_APPLICATION,
  SWAGGER_UI_NAME,
  swaggerUiAddresses,
} from './tenant.js';
import { TenantAdmin } from './tenant-admin.js';

export interface TenantSetupOptions {
  readonly url: string;
  readonly audience: string;
  readonly connection: string;
  /** The service's URL for clients, without a trailing slash. */
  readonly baseUrl: string;
  /** The PUBLIC_URL of the service. If undefined, an existing Swagger UI application keeps its addresses. */
  readonly publicUrl: string | undefined;
  /** The client id of the service's application. If undefined, that is found, or created, by its fixed name. */
  readonly clientId: string | undefined;
  readonly swaggerUiClientId: string | undefined;
  readonly credentials: { readonly clientId: string; readonly clientSecret: string };
}

interface NamedApplication {
  readonly name: string;
  readonly clientId: string | undefined;
  readonly variable: string;
}

const APPLICATION = z.looseObject({ client_id: z.string(), name: z.string() });
const SECRET = z.object({ client_secret: z.string().optional() });
const GRANT = z.object({
  id: z.string(),
  scope: z.array(z.string()).nullish(),
  subject_type: z.string().nullish(),
  allow_all_scopes: z.boolean().nullish(),
});
const CONNECTIONS = z.array(z.object({ id: z.string(), name: z.string(), strategy: z.string() }));
const ENABLED = z.object({ clients: z.array(z.object({ client_id: z.string() })), next: z.string().nullish() });
const ROLE = z.object({ id: z.string(), name: z.string(), type: z.string().nullish() });
const PERMISSION = z.object({ resource_server_identifier: z.string(), permission_name: z.string() });
const USERS = z.array(z.object({ user_id: z.string(), logins_count: z.number().default(0), identities: z.array(z.object({ connection: z.string() })) }));
const TICKET = z.object({ ticket: z.string() });

type Application = z.infer<typeof APPLICATION>;
type Grant = z.infer<typeof GRANT>;

const TICKET_SECONDS = 432_000;

/**
 * Finds and makes the changes that an Auth0 tenant needs for the service, and useful extras: Swagger UI's application,
 * a role with all permissions, and, if asked for, a user with that role. Nothing that already exists is removed.
 */
export class TenantSetup {
  private readonly api: ApiClient;
  private readonly admin: TenantAdmin;
  private readonly scopes: ApiScopes;

  constructor(private readonly options: TenantSetupOptions) {
    this.api = managementApi({ url: options.url, ...options.credentials });
    // Each call is an operation of its own, so that the time limit of one operation doesn't end a set-up.
    this.admin = new TenantAdmin(this.api, () => new Operation());
    this.scopes = new ApiScopes(this.api, options.audience);
  }

  /**
   * The requirements, in the order in which the changes must be made.
   *
   * @param administrator the e-mail of a user who gets the role with all permissions, and is created if missing.
   * @throws ProviderError when the options have the client id of an application that doesn't exist; otherwise as
   * `ApiClient.get`.
   */
  async parts(administrator?: string): Promise<Requirement[]> {
    const { baseUrl, publicUrl } = this.options;
    const addresses = swaggerUiAddresses(baseUrl);
    const named = [this.service, this.swaggerUi].filter(({ clientId }) => clientId !== undefined);
    for (const application of named) await this.find(application);
    return [
      apiPart(this.admin, this.scopes, this.options.audience),
      this.application(this.service, SERVICE_APPLICATION),
      this.serviceScopes(),
      this.application(this.swaggerUi, { ...SWAGGER_UI_APPLICATION, ...(publicUrl !== undefined && addresses) }, addresses),
      this.swaggerUiConnection(),
      this.administratorRole(),
      ...(administrator === undefined ? [] : [this.administrator(administrator)]),
    ];
  }

  /** The granted scopes of the Management API that the service doesn't need; `all scopes` if the grant allows all. */
  async needlessScopes(): Promise<readonly string[]> {
    const application = await this.find(this.service);
    const grant = application && (await this.grantOf(application));
    if (grant?.allow_all_scopes === true) return ['all scopes'];
    return grant?.scope?.filter((scope) => !(SERVICE_SCOPES as readonly string[]).includes(scope)) ?? [];
  }

  /** @throws ProviderError when the application is missing or ambiguous, or Auth0 doesn't show the secret. */
  async serviceCredentials(): Promise<{ clientId: string; clientSecret: string }> {
    const { client_id: clientId } = await this.existing(this.service);
    const { client_secret: clientSecret } = await this.admin.get(`/clients/${encodeURIComponent(clientId)}`, SECRET);
    if (clientSecret === undefined) throw new ProviderError(`Auth0 does not show the secret of the application "${clientId}": read:client_keys is missing.`);
    return { clientId, clientSecret };
  }

  /** @throws ProviderError when the application is missing or its name is ambiguous. */
  async swaggerUiClientId(): Promise<string> {
    return (await this.existing(this.swaggerUi)).client_id;
  }

  async close(): Promise<void> {
    await this.api.close();
  }

  private get service(): NamedApplication {
    return { name: SERVICE_NAME, clientId: this.options.clientId, variable: 'AUTH0_CLIENT_ID' };
  }

  private get swaggerUi(): NamedApplication {
    return { name: SWAGGER_UI_NAME, clientId: this.options.swaggerUiClientId, variable: 'SWAGGER_UI_CLIENT_ID' };
  }

  private async find({ name, clientId, variable }: NamedApplication): Promise<Application | undefined> {
    const fields = ['client_id', 'name', ...Object.keys({ ...SERVICE_APPLICATION, ...SWAGGER_UI_APPLICATION, ...swaggerUiAddresses(this.options.baseUrl) })];
    const all = await this.admin.all(`/clients?fields=${fields.join(',')}&include_fields=true`, 'clients', APPLICATION);
    const [found, ...others] = all.filter((one) => (clientId === undefined ? one.name === name : one.client_id === clientId));
    if (!found && clientId !== undefined) throw new ProviderError(`There is no application "${clientId}" (${variable}).`);
    if (others.length > 0) throw new ProviderError(`There are ${others.length + 1} applications "${name}"; ${variable} says which is meant.`);
    return found;
  }

  private async existing(named: NamedApplication): Promise<Application> {
    const application = await this.find(named);
    if (!application) throw new ProviderError(`There is no application "${named.name}".`);
    return application;
  }

  private application(named: NamedApplication, wanted: Members, atFirst: Members = {}): Requirement {
    const name = `application ${named.name}`;
    const make = () => this.admin.send('POST', '/clients', { name: named.name, ...wanted, ...atFirst });
    return {
      name,
      changes: async () => {
        const present = await this.find(named);
        if (!present) return [{ text: `+ ${name}`, make }];
        const change = lacking(present, wanted);
        const members = Object.keys(change);
        if (members.length === 0) return [];
        const alter = () => this.admin.send('PATCH', `/clients/${encodeURIComponent(present.client_id)}`, change);
        return [{ text: `~ ${name}: ${members.join(', ')}`, make: alter }];
      },
    };
  }

  /** The grant to call the Management API on the application's own behalf, not on behalf of users. */
  private async grantOf({ client_id: clientId }: Application): Promise<Grant | undefined> {
    const query = new URLSearchParams({ client_id: clientId, audience: `${this.options.url}/api/v2/` });
    const grants = await this.admin.all(`/client-grants?${query.toString()}`, 'client_grants', GRANT);
    return grants.find(({ subject_type: subject }) => (subject ?? 'client') === 'client');
  }

  private serviceScopes(): Requirement {
    const missingOf = (grant: Grant | undefined) => SERVICE_SCOPES.filter((scope) => grant?.allow_all_scopes !== true && !grant?.scope?.includes(scope));
    // The first change adds all missing scopes, because a grant's list of scopes can only be replaced as a whole.
    const make = async (): Promise<void> => {
      const application = await this.existing(this.service);
      const grant = await this.grantOf(application);
      const missing = missingOf(grant);
      if (missing.length === 0) return;
      const scope = [...(grant?.scope ?? []), ...missing];
      if (grant) await this.admin.send('PATCH', `/client-grants/${encodeURIComponent(grant.id)}`, { scope });
      else await this.admin.send('POST', '/client-grants', { client_id: application.client_id, audience: `${this.options.url}/api/v2/`, scope });
    };
    return {
      name: `scopes of application ${SERVICE_NAME}`,
      changes: async () => {
        const application = await this.find(this.service);
        const missing = missingOf(application && (await this.grantOf(application)));
        return missing.map((scope) => ({ text: `+ scope ${scope} of application ${SERVICE_NAME}`, make }));
      },
    };
  }

  private swaggerUiConnection(): Requirement {
    const { connection } = this.options;
    const name = `connection ${connection} of application ${SWAGGER_UI_NAME}`;
    const pathOf = async (): Promise<string> => {
      const connections = await this.admin.get(`/connections?name=${encodeURIComponent(connection)}`, CONNECTIONS);
      const found = connections.find((one) => one.name === connection);
      if (!found) throw new ProviderError(`There is no connection "${connection}" (AUTH0_CONNECTION).`);
      if (found.strategy !== 'auth0') throw new ProviderError(`The connection "${connection}" (AUTH0_CONNECTION) is not a database connection.`);
      return `/connections/${encodeURIComponent(found.id)}/clients`;
    };
    const make = async () => this.admin.send('PATCH', await pathOf(), [{ client_id: await this.swaggerUiClientId(), status: true }]);
    return {
      name,
      changes: async () => {
        const path = await pathOf();
        const application = await this.find(this.swaggerUi);
        return application && (await this.isEnabled(path, application)) ? [] : [{ text: `+ ${name}`, make }];
      },
    };
  }

  private async isEnabled(path: string, { client_id: clientId }: Application): Promise<boolean> {
    let from: string | null | undefined;
    do {
      const { clients, next } = await this.admin.get(from ? `${path}?from=${encodeURIComponent(from)}` : path, ENABLED);
      if (clients.some((one) => one.client_id === clientId)) return true;
      from = next;
    } while (from);
    return false;
  }

  private async role(): Promise<z.infer<typeof ROLE> | undefined> {
    const roles = await this.admin.all(`/roles?name_filter=${ADMINISTRATOR_ROLE}`, 'roles', ROLE);
    return roles.find(({ name, type }) => name === ADMINISTRATOR_ROLE && (type ?? 'tenant') === 'tenant');
  }

  private async existingRole(): Promise<string> {
    const role = await this.role();
    if (!role) throw new ProviderError(`There is no role "${ADMINISTRATOR_ROLE}".`);
    return role.id;
  }

  private administratorRole(): Requirement {
    const { audience } = this.options;
    const name = `role ${ADMINISTRATOR_ROLE}`;
    const give = async (names: readonly string[]): Promise<void> => {
      const permissions = names.map((permission) => ({ resource_server_identifier: audience, permission_name: permission }));
      await this.admin.send('POST', `/roles/${await this.existingRole()}/permissions`, { permissions });
    };
    const make = async (): Promise<void> => {
      await this.admin.send('POST', '/roles', { name: ADMINISTRATOR_ROLE, description: 'All permissions of the load-data service' });
      await give(PERMISSIONS);
    };
    return {
      name,
      changes: async () => {
        const role = await this.role();
        if (!role) return [{ text: `+ ${name}`, make }];
        const held = await this.admin.all(`/roles/${role.id}/permissions`, 'permissions', PERMISSION);
        const has = (permission: string) => held.some((one) => one.resource_server_identifier === audience && one.permission_name === permission);
        const missing = PERMISSIONS.filter((permission) => !has(permission));
        return missing.map((permission) => ({ text: `+ permission ${permission} of ${name}`, make: () => give([permission]) }));
      },
    };
  }

  private administrator(email: string): Requirement {
    const { connection } = this.options;
    const present = async (): Promise<z.infer<typeof USERS>[number] | undefined> => {
      const users = await this.admin.get(`/users-by-email?email=${encodeURIComponent(email)}`, USERS);
      return users.find(({ identities }) => identities.some((one) => one.connection === connection));
    };
    const existing = async (): Promise<string> => {
      const user = await present();
      if (!user) throw new ProviderError(`There is no user ${email}.`);
      return user.user_id;
    };
    const create = () =>
      this.admin.send('POST', '/users', { email, connection, password: randomPassword(), email_verified: false, verify_email: false });
    let ticket = '';
    const makeTicket = async (): Promise<void> => {
      const body = { user_id: await existing(), ttl_sec: TICKET_SECONDS, mark_email_as_verified: false };
      ({ ticket } = TICKET.parse(await this.admin.send('POST', '/tickets/password-change', body)));
    };
    const giveRole = async () =>
      this.admin.send('POST', `/users/${encodeURIComponent(await existing())}/roles`, { roles: [await this.existingRole()] });
    const user: Change = { text: `+ user ${email}`, make: create };
    const link: Change = {
      text: `+ link for ${email} to set a password`,
      make: makeTicket,
      note: () => Promise.resolve(`With this link ${email} sets a password, within five days; whoever has it can: ${ticket}`),
    };
    // The role is given last, as the sign that the user is complete: the next run repeats an earlier change that
    // failed.
    const role: Change = { text: `+ role ${ADMINISTRATOR_ROLE} of user ${email}`, make: giveRole };
    return {
      name: `user ${email}`,
      changes: async () => {
        const found = await present();
        if (!found) return [user, link, role];
        const roles = await this.admin.all(`/users/${encodeURIComponent(found.user_id)}/roles`, 'roles', ROLE);
        if (roles.some(({ name }) => name === ADMINISTRATOR_ROLE)) return [];
        return found.logins_count === 0 ? [link, role] : [role];
      },
    };
  }
}
