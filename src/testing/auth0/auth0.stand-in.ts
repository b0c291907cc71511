import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { AccessTokens, type TokenRequest } from './access-tokens.js';
import { Auth0Api } from './auth0-api.js';
import { type Auth0Fault, type FaultOptions, Faults, requestPattern } from './faults.js';
import { newResourceServer } from './resource-servers.routes.js';
import { type Auth0Mail, type Auth0Settings, DEFAULT_SETTINGS, newId, Tenant } from './tenant.js';
import { cut, readRequest, reset, send } from './transport.js';

export interface Auth0StandInOptions {
  /** What differs from the usual; `settings` of the stand-in changes them later. */
  readonly settings?: Partial<Auth0Settings>;
  /** The identifier of the API that tokens are for; null for a tenant that nobody has set up. `load-data-api` unless set. */
  readonly audience?: string | null;
  /** The API's scopes; none unless set. */
  readonly apiScopes?: readonly string[];
  /** What the application `service` may do in the Management API; `SERVICE_SCOPES` unless set. */
  readonly serviceScopes?: readonly string[];
  /** The names of the database connections; `Username-Password-Authentication` unless set. */
  readonly connections?: readonly string[];
  /** Milliseconds since 1970, for all that has a time; the clock unless set. */
  readonly now?: () => number;
  /** Sees each request together with its answer, which goes out when that is done. */
  readonly onExchange?: (exchange: Auth0Exchange) => unknown;
}

/** A request and its answer. */
export interface Auth0Exchange {
  readonly method: string;
  /** Without the query, encoded as it came. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Parsed; undefined without one. */
  readonly requestBody: unknown;
  /** Left out where a fault comes in its place. */
  readonly answer?: { readonly status: number; readonly body?: unknown };
}

/** A request that came in, also when nothing was done about it. */
export interface SeenRequest {
  readonly method: string;
  /** Without the query, encoded as it came. */
  readonly path: string;
  readonly query: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

export interface ClientCredentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

export interface LoadUsersOptions {
  /** Milliseconds since 1970, for the user of each index from 0; a second apart from 2024 on unless set. */
  readonly createdAt?: (index: number) => number;
  /** What ids begin with; `auth0` unless set. */
  readonly provider?: string;
  /** What names begin with; `User ` unless set. */
  readonly namePrefix?: string;
  /** The connection that they are in; the first database for `auth0`, otherwise of the provider's name. */
  readonly connection?: string;
  /** How often they have logged in; never unless set. */
  readonly logins?: number;
}

/** What the service needs, and no more. */
export const SERVICE_SCOPES = [
  'create:role_members',
  'create:roles',
  'create:users',
  'delete:roles',
  'delete:users',
  'read:resource_servers',
  'read:role_members',
  'read:roles',
  'read:users',
  'update:resource_servers',
  'update:roles',
  'update:users',
] as const;

const FIRST_CREATION = Date.UTC(2024, 0, 1);
const KEEP_ALIVE_MS = 60_000;
/** With these nothing is done. */
const PREVENTING: ReadonlySet<Auth0Fault['kind']> = new Set(['answer', 'reset', 'silence']);

/**
 * An Auth0 tenant for tests, on loopback and a free port: what the service and its set-up use of the Authentication API and
 * of the Management API v2, with the limits that Auth0 documents. Where nothing says what Auth0 does, it does what is
 * hardest on its client.
 */
export async function startAuth0StandIn(options: Auth0StandInOptions = {}): Promise<Auth0StandIn> {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return new Auth0StandIn(server, options);
}

export class Auth0StandIn {
  /** Where the tenant is, without a slash at its end. */
  readonly domain: string;
  /** How the tenant behaves; to be changed at any time. */
  readonly settings: Auth0Settings;
  /** The requests so far, the oldest first. */
  readonly requests: SeenRequest[] = [];
  /** The application that works with the Management API. */
  readonly service: ClientCredentials;
  /** An application with all scopes of the Management API, to set up a tenant with. */
  readonly administrator: ClientCredentials;

  private readonly port: number;
  private readonly tenant: Tenant;
  private readonly tokens: AccessTokens;
  private readonly api: Auth0Api;
  private readonly faults = new Faults();
  private readonly silent = new Set<ServerResponse>();
  private readonly now: () => number;
  private readonly onExchange: Auth0StandInOptions['onExchange'];
  private loaded = 0;

  /** @param server is listening. */
  constructor(
    private readonly server: ReturnType<typeof createServer>,
    options: Auth0StandInOptions,
  ) {
    const { audience = 'load-data-api', apiScopes = [], serviceScopes = SERVICE_SCOPES } = options;
    const { connections = ['Username-Password-Authentication'], now = Date.now, onExchange } = options;
    this.now = now;
    this.onExchange = onExchange;
    this.port = (server.address() as AddressInfo).port;
    this.domain = `http://127.0.0.1:${this.port}`;
    this.settings = { ...DEFAULT_SETTINGS, ...options.settings };
    const databases = connections.map((name) => ({ id: newId('con_'), name, strategy: 'auth0', enabledClients: new Set<string>() }));
    this.tenant = new Tenant(this.domain, databases, this.settings, now);
    this.tokens = new AccessTokens(this.tenant);
    this.api = new Auth0Api(this.tenant, this.tokens);
    const scopes = this.api.managementScopes.map((value) => ({ value }));
    this.addApi({ identifier: this.tenant.managementAudience, isSystem: true, scopes, settings: { name: 'Auth0 Management API' } });
    if (audience !== null) {
      const settings = { name: 'Load data', enforce_policies: true, token_dialect: 'access_token_authz' };
      this.addApi({ identifier: audience, scopes: apiScopes.map((value) => ({ value })), settings });
    }
    this.service = this.addClient('load-data-service', serviceScopes);
    this.administrator = this.addClient('administrator', this.api.managementScopes);
    server.on('request', (request, response) => {
      // Whatever it rejects with is a defect of the stand-in or of `onExchange`, and shall end the test.
      void this.serve(request, response);
    });
  }

  /** What tokens carry as `iss`. */
  get issuer(): string {
    return this.tokens.issuer;
  }

  /** The mails so far, the oldest first. */
  get mails(): readonly Auth0Mail[] {
    return this.tenant.mails;
  }

  /** Ends the server and all connections; the tenant stays as it is. Idempotent. */
  async stop(): Promise<void> {
    if (!this.server.listening) return;
    this.server.close();
    this.server.closeAllConnections();
    await once(this.server, 'close');
  }

  /** Listens again on the same port after `stop`. */
  async start(): Promise<void> {
    await once(this.server.listen(this.port, '127.0.0.1'), 'listening');
  }

  /**
   * From now on, something goes wrong with requests.
   *
   * @param request method and path, as in `POST /api/v2/users/{id}/roles` where `{id}` stands for one segment; or a pattern
   * for that text.
   */
  fail(request: string | RegExp, fault: Auth0Fault, options: FaultOptions = {}): void {
    this.faults.add(request, fault, options);
  }

  /** Ends all faults; connections that got no answer are reset. */
  recover(): void {
    this.faults.clear();
    for (const response of this.silent) reset(response);
    this.silent.clear();
  }

  /** How many requests came, as `fail` names them. */
  count(request: string | RegExp): number {
    const pattern = requestPattern(request);
    return this.requests.filter(({ method, path }) => pattern.test(`${method} ${path}`)).length;
  }

  /** An access token of the API, as callers of the service carry it. */
  issueToken(request: TokenRequest = {}): Promise<string> {
    return this.tokens.issue(request);
  }

  /** A token of the Management API with these scopes. */
  issueManagementToken(scopes: readonly string[] = this.api.managementScopes): Promise<string> {
    return this.tokens.issueForManagement('test', scopes);
  }

  /** All tokens of the Management API so far are refused from now on. */
  expireManagementTokens(): void {
    this.tokens.expireManagementTokens();
  }

  /** Signs with the next key from now on; the one before stays in the key set. */
  rotateKeys(): void {
    this.tokens.rotateKeys();
  }

  /** Takes all keys before the current one out of the key set. */
  revokePreviousKeys(): void {
    this.tokens.revokePreviousKeys();
  }

  /** Changes what the application `service` may do: in tokens from now on. */
  grantService(scopes: readonly string[]): void {
    for (const grant of this.tenant.clientGrants.values()) {
      if (grant.clientId === this.service.clientId) grant.scope = scopes;
    }
  }

  /** Lets the search know of all changes, however long `searchDelayMs` is. */
  indexUsers(): void {
    this.tenant.users.index.catchUp(Infinity);
  }

  /** Puts in so many users at once, found by search at once. Returns their ids. */
  loadUsers(count: number, options: LoadUsersOptions = {}): string[] {
    const { createdAt = (index: number) => FIRST_CREATION + index * 1000, provider = 'auth0', namePrefix = 'User ', logins } = options;
    const connection = options.connection ?? (provider === 'auth0' ? (this.tenant.connections[0]?.name ?? '') : provider);
    // Who has never logged in has no such member.
    const others = logins === undefined ? {} : { logins_count: logins };
    const ids = Array.from({ length: count }, (_, index) => {
      const number = this.loaded++;
      // Scattered, so that ids aren't in the order of creation.
      const userId = `${provider}|${(Math.imul(number, 2_654_435_761) >>> 0).toString(16).padStart(24, '0')}`;
      const [email, at] = [`user-${number}@example.com`, createdAt(index)];
      this.tenant.users.put({ userId, email, name: `${namePrefix}${number}`, connection, createdAt: at, updatedAt: at, emailVerified: true, others }, -Infinity);
      return userId;
    });
    this.tenant.users.index.catchUp(this.now());
    return ids;
  }

  /** Puts in a role of an organization's, which is listed among the tenant's. Returns its id. */
  addOrganizationRole(name: string): string {
    const role = { id: newId('rol_'), name, description: undefined, permissions: [], ownerId: newId('org_') };
    this.tenant.roles.set(role.id, role);
    this.tenant.hasOrganizationRoles = true;
    return role.id;
  }

  /** What the user's roles permit at the API, in any order. */
  permissionsOf(userId: string): string[] {
    const [, api] = this.tenant.resourceServers.values();
    return api ? this.tenant.permissionsOf(userId, api.identifier) : [];
  }

  private addApi(server: Parameters<typeof newResourceServer>[0]): void {
    const added = newResourceServer(server);
    this.tenant.resourceServers.set(added.id, added);
  }

  private addClient(name: string, scope: readonly string[]): ClientCredentials {
    const credentials = { clientId: newId('', 32), clientSecret: newId('', 64) };
    const { clientId, clientSecret } = credentials;
    this.tenant.clients.set(clientId, { id: clientId, secret: clientSecret, settings: { name, app_type: 'non_interactive', grant_types: ['client_credentials'] } });
    const grant = { id: newId('cgr_'), clientId, audience: this.tenant.managementAudience, subject: 'client' as const, scope, allowsAll: undefined };
    this.tenant.clientGrants.set(grant.id, grant);
    for (const { enabledClients } of this.tenant.connections) enabledClients.add(clientId);
    return credentials;
  }

  private async serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await readRequest(incoming);
    if (!request) return;
    const { method, path, query, body: requestBody } = request;
    this.requests.push({ method, path, query: query.toString(), at: this.now() });
    const fault = this.faults.next(`${method} ${path}`);
    if (fault && PREVENTING.has(fault.kind)) await this.onExchange?.({ method, path, query, requestBody });
    if (fault?.kind === 'answer') {
      send(response, { status: fault.status, headers: { ...fault.headers }, body: fault.body });
      return;
    }
    if (fault?.kind === 'reset') {
      reset(response);
      return;
    }
    if (fault?.kind === 'silence') {
      this.silent.add(response);
      return;
    }
    if (fault?.kind === 'delay') await setTimeout(fault.ms);
    const answer = await this.api.answer(request);
    await this.onExchange?.({ method, path, query, requestBody, answer });
    if (fault?.kind === 'lost-answer') reset(response);
    else if (fault?.kind === 'silence-after') this.silent.add(response);
    else if (fault?.kind === 'cut-body') cut(response, answer);
    else if (fault?.kind === 'truncated-json') send(response, answer, 0.5);
    else send(response, answer);
  }
}
