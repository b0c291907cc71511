import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { AccessTokens, type TokenRequest } from './access-tokens.js';
import { Auth0Api } from './auth0-api.js';
import { type Auth0Fault, type FaultOptions, Faults, requestPattern } from './faults.js';
import { newResourceServer } from './resource-servers.routes.js';
import { type Auth0Mail, type Auth0Settings, DEFAULT_SETTINGS, newId, Tenant } from './tenant.js';
import { cut, readRequest, reset, send } from './transport.js';

export interface Auth0StandInOptions {
  /** The tenant's settings that differ from the defaults. A test can change them later in `Auth0StandIn.settings`. */
  readonly settings?: Partial<Auth0Settings>;
  /**
   * The identifier of the API for which the service accepts tokens. Null: the tenant has no such API yet, as before the
   * service's set-up. Default: `load-data-api`.
   */
  readonly audience?: string | null;
  readonly apiScopes?: readonly string[];
  /** The scopes of the Management API that the service's application is granted. Default: `SERVICE_SCOPES`. */
  readonly serviceScopes?: readonly string[];
  /** The names of the tenant's database connections. Default: only `Username-Password-Authentication`. */
  readonly connections?: readonly string[];
  /** The clock of the tenant, in milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
  /** Called with each request, and with the tenant's answer before it is sent. A returned promise is awaited first. */
  readonly onExchange?: (exchange: Auth0Exchange) => unknown;
}

export interface Auth0Exchange {
  readonly method: string;
  /** The request's path without the query, still percent-encoded. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly requestBody: unknown;
  /** The tenant's answer. Missing if a fault prevented the request from being processed. */
  readonly answer?: { readonly status: number; readonly body?: unknown };
}

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** When the request was received, in milliseconds since 1970. */
  readonly at: number;
}

export interface ClientCredentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

export interface LoadUsersOptions {
  /**
   * The time of creation, in milliseconds since 1970, of the user with this index in the call of `loadUsers`. Default:
   * one user per second, from the beginning of 2024 (UTC) on.
   */
  readonly createdAt?: (index: number) => number;
  /** The part before the `|` in the users' ids. Default: `auth0`. */
  readonly provider?: string;
  readonly namePrefix?: string;
  /** The users' connection. Default: the tenant's first database for `auth0`, or else one named like the provider. */
  readonly connection?: string;
  /** How often each of the loaded users has logged in. Default: never. */
  readonly logins?: number;
}

/** The scopes of the Management API that the running service needs. Its set-up needs more. */
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
const PREVENTING: ReadonlySet<Auth0Fault['kind']> = new Set(['answer', 'reset', 'silence']);

/**
 * Starts a stand-in for an Auth0 tenant on loopback and a free port. It simulates the parts of the Authentication API
 * and the Management API v2 that the service and its set-up use. Where Auth0 documents no behaviour, the stand-in
 * chooses one, or has a setting.
 */
export async function startAuth0StandIn(options: Auth0StandInOptions = {}): Promise<Auth0StandIn> {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return new Auth0StandIn(server, options);
}

export class Auth0StandIn {
  /** The tenant's base URL, without a trailing slash. */
  readonly domain: string;
  /** The tenant's settings. A test can change them at any time. */
  readonly settings: Auth0Settings;
  readonly requests: SeenRequest[] = [];
  readonly service: ClientCredentials;
  /** An application that has all simulated scopes of the Management API, for the set-up of a tenant. */
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

  constructor(
    private readonly server: ReturnType<typeof createServer>,
    options: Auth0StandInOptions,
  ) {
    const { audience = 'load-data-api', apiScopes = [], serviceScopes = SERVICE_SCOPES } = options;
    const { connections = ['Username-Password-Authentication'], now = () => Date.now(), onExchange } = options;
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
      // The promise has no error handler, on purpose: it rejects only because of a defect in the stand-in or in
      // `onExchange`, which the unhandled rejection then shows.
      void this.serve(request, response);
    });
  }

  get issuer(): string {
    return this.tokens.issuer;
  }

  get mails(): readonly Auth0Mail[] {
    return this.tenant.mails;
  }

  /** Stops the server, and closes its connections. The tenant keeps its state. Idempotent. */
  async stop(): Promise<void> {
    if (!this.server.listening) return;
    this.server.close();
    this.server.closeAllConnections();
    await once(this.server, 'close');
  }

  async start(): Promise<void> {
    await once(this.server.listen(this.port, '127.0.0.1'), 'listening');
  }

  /**
   * Plans a fault for coming requests: by default, only for the next one that matches.
   *
   * @param request a method and a path, as in `POST /api/v2/users/{id}/roles`, where `{id}` matches any one segment; or
   * a regular expression for both.
   */
  fail(request: string | RegExp, fault: Auth0Fault, options: FaultOptions = {}): void {
    this.faults.add(request, fault, options);
  }

  /** Discards all planned faults, and resets the connections of requests that a fault keeps waiting for an answer. */
  recover(): void {
    this.faults.clear();
    for (const response of this.silent) reset(response);
    this.silent.clear();
  }

  /** How many requests so far have a method and path that match `request`, a pattern as in `fail`. */
  count(request: string | RegExp): number {
    const pattern = requestPattern(request);
    return this.requests.filter(({ method, path }) => pattern.test(`${method} ${path}`)).length;
  }

  /** Issues an access token for an API of the tenant, such as callers of the service send. */
  issueToken(request: TokenRequest = {}): Promise<string> {
    return this.tokens.issue(request);
  }

  issueManagementToken(scopes: readonly string[] = this.api.managementScopes): Promise<string> {
    return this.tokens.issueForManagement('test', scopes);
  }

  expireManagementTokens(): void {
    this.tokens.expireManagementTokens();
  }

  /** Signs later tokens with a new key. The previous key stays published until `revokePreviousKeys` is called. */
  rotateKeys(): void {
    this.tokens.rotateKeys();
  }

  revokePreviousKeys(): void {
    this.tokens.revokePreviousKeys();
  }

  /** Replaces the scopes granted to the service's application. Management API tokens issued before keep theirs. */
  grantService(scopes: readonly string[]): void {
    for (const grant of this.tenant.clientGrants.values()) {
      if (grant.clientId === this.service.clientId) grant.scope = scopes;
    }
  }

  /** Makes the user search find all changes made so far, even if `searchDelayMs` isn't over. */
  indexUsers(): void {
    this.tenant.users.index.catchUp(Infinity);
  }

  /** Adds users, whom the search finds at once. Returns their ids. */
  loadUsers(count: number, options: LoadUsersOptions = {}): string[] {
    const { createdAt = (index: number) => FIRST_CREATION + index * 1000, provider = 'auth0', namePrefix = 'User ', logins } = options;
    const connection = options.connection ?? (provider === 'auth0' ? (this.tenant.connections[0]?.name ?? '') : provider);
    // Auth0 leaves out `logins_count` for a user who has never logged in.
    const others = logins === undefined ? {} : { logins_count: logins };
    const ids = Array.from({ length: count }, (_, index) => {
      const number = this.loaded++;
      // The ids of the loaded users aren't in the order in which the users were created.
      const userId = `${provider}|${(Math.imul(number, 2_654_435_761) >>> 0).toString(16).padStart(24, '0')}`;
      const [email, at] = [`user-${number}@example.com`, createdAt(index)];
      this.tenant.users.put({ userId, email, name: `${namePrefix}${number}`, connection, createdAt: at, updatedAt: at, emailVerified: true, others }, -Infinity);
      return userId;
    });
    this.tenant.users.index.catchUp(this.now());
    return ids;
  }

  /** Adds a role of an organization, which is listed among the tenant's roles. Returns the role's id. */
  addOrganizationRole(name: string): string {
    const role = { id: newId('rol_'), name, description: undefined, permissions: [], ownerId: newId('org_') };
    this.tenant.roles.set(role.id, role);
    this.tenant.hasOrganizationRoles = true;
    return role.id;
  }

  /** The permissions that a user's roles give for the tenant's first API except the Management API, in any order. */
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
    if (fault?.kind === 'delay') await delay(fault.ms);
    const answer = await this.api.answer(request);
    await this.onExchange?.({ method, path, query, requestBody, answer });
    if (fault?.kind === 'lost-answer') reset(response);
    else if (fault?.kind === 'silence-after') this.silent.add(response);
    else if (fault?.kind === 'cut-body') cut(response, answer);
    else if (fault?.kind === 'truncated-json') send(response, answer, 0.5);
    else send(response, answer);
  }
}
