import { randomBytes } from 'node:crypto';
import type { RateLimit } from './rate-limit.js';
import type { SearchGranularity } from './user-query.js';
import type { UserRecord } from './user-record.js';
import { UserStore } from './user-store.js';

/** The settings of an Auth0 tenant's behaviour. Each may be changed at any time. */
export interface Auth0Settings {
  /**
   * The delay until the search finds a change of a user, in milliseconds. With `Infinity`, the search finds the change
   * only after `indexUsers`. Default: 0.
   */
  searchDelayMs: number;
  /** The precision of `created_at` in the search for users. Auth0 doesn't document it. Default: milliseconds. */
  searchGranularity: SearchGranularity;
  /**
   * The rate limit for the calls of the Management API, which all share one bucket here. In Auth0, paid plans have
   * separate buckets for some kinds of calls. Default: no limit.
   */
  rateLimit: RateLimit | undefined;
  /** The lifetime of tokens of the Management API, in seconds. Default: one day. */
  tokenLifetimeSeconds: number;
  /**
   * The most items on a page of the lists of roles, of role members, of permissions and of APIs: 100, or 50 as in
   * Auth0's public cloud. The default page is half as large.
   */
  largestPage: 100 | 50;
  /**
   * How the assignment of several roles ends if one of them is unknown: `not-found` refuses all with 404, `bad-request`
   * refuses all with 400, `ignored` assigns all except the unknown one.
   */
  unknownRole: 'not-found' | 'bad-request' | 'ignored';
  /** Whether the tenant has several custom domains. If so, Auth0 refuses POST /users with 409. */
  hasSeveralCustomDomains: boolean;
  /** How many reads of an export job report that it isn't finished yet. */
  exportReads: number;
  /** The state in which all export jobs end. */
  exportEnd: 'completed' | 'failed';
  /** Whether an Action of the tenant adds the claim `customer_id` to users' tokens, from `app_metadata.customer_id`. */
  hasCustomerIdAction: boolean;
}

export const DEFAULT_SETTINGS: Auth0Settings = {
  searchDelayMs: 0,
  searchGranularity: 'millisecond',
  rateLimit: undefined,
  tokenLifetimeSeconds: 86_400,
  largestPage: 100,
  unknownRole: 'not-found',
  hasSeveralCustomDomains: false,
  exportReads: 1,
  exportEnd: 'completed',
  hasCustomerIdAction: false,
};

export interface RolePermission {
  readonly audience: string;
  readonly name: string;
}

export interface RoleRecord {
  readonly id: string;
  name: string;
  description: string | undefined;
  permissions: RolePermission[];
  /** The id of the organization that owns the role; missing for a role of the tenant. */
  readonly ownerId?: string;
}

export interface ApiScope {
  readonly value: string;
  readonly description?: string | undefined;
}

/**
 * An API of the tenant (a resource server). `settings` has those members of the API for which this interface has no
 * field, as they were sent.
 */
export interface ResourceServerRecord {
  readonly id: string;
  readonly identifier: string;
  readonly isSystem: boolean;
  scopes: ApiScope[];
  settings: Readonly<Record<string, unknown>>;
}

export interface ClientRecord {
  readonly id: string;
  readonly secret: string;
  settings: Readonly<Record<string, unknown>>;
}

export interface ClientGrantRecord {
  readonly id: string;
  readonly clientId: string;
  readonly audience: string;
  /** Whether the grant's scopes are for the application itself (`client`) or for its users (`user`). */
  readonly subject: 'client' | 'user';
  scope: readonly string[];
  /** Whether the client grant allows all scopes of the API. Undefined if `allow_all_scopes` was never set. */
  allowsAll: boolean | undefined;
}

/** A connection: a source of users, such as a database, through which these users sign in. */
export interface ConnectionRecord {
  readonly id: string;
  readonly name: string;
  readonly strategy: string;
  /** The ids of the applications in which users can sign in through this connection. */
  readonly enabledClients: Set<string>;
}

/** A mail that the tenant has sent. */
export interface Auth0Mail {
  readonly kind: 'verification' | 'change-password';
  readonly to: string;
  readonly userId: string;
  /** When the mail was sent, in milliseconds since 1970. */
  readonly at: number;
  /** The ids of the roles that the recipient had when the mail was sent. */
  readonly roles: readonly string[];
}

/** The state of an Auth0 tenant: its users, roles, APIs, applications, grants and sent mails. */
export class Tenant {
  readonly users = new UserStore();
  readonly roles = new Map<string, RoleRecord>();
  readonly resourceServers = new Map<string, ResourceServerRecord>();
  readonly clients = new Map<string, ClientRecord>();
  readonly clientGrants = new Map<string, ClientGrantRecord>();
  readonly mails: Auth0Mail[] = [];
  /** Whether organizations of the tenant have roles of their own. If so, answers name the owner of each role. */
  hasOrganizationRoles = false;
  private readonly roleIds = new Map<string, Set<string>>();

  /**
   * @param domain the base URL of the tenant, without a trailing slash.
   * @param now returns the current time, in milliseconds since 1970.
   */
  constructor(
    readonly domain: string,
    readonly connections: readonly ConnectionRecord[],
    readonly settings: Auth0Settings,
    readonly now: () => number,
  ) {}

  get managementAudience(): string {
    return `${this.domain}/api/v2/`;
  }

  put(user: UserRecord): void {
    this.users.put(user, this.searchableAt());
  }

  removeUser(userId: string): void {
    this.users.remove(userId, this.searchableAt());
    this.roleIds.delete(userId);
  }

  removeRole(roleId: string): void {
    this.roles.delete(roleId);
    for (const ids of this.roleIds.values()) ids.delete(roleId);
  }

  removeClient(clientId: string): void {
    this.clients.delete(clientId);
    for (const { id, clientId: owner } of this.clientGrants.values()) if (owner === clientId) this.clientGrants.delete(id);
    for (const { enabledClients } of this.connections) enabledClients.delete(clientId);
  }

  /** The scopes that an application has itself at an API, by its client grant; undefined if it has no such grant. */
  grantOf(clientId: string, audience: string): readonly string[] | undefined {
    const grant = [...this.clientGrants.values()].find((each) => each.clientId === clientId && each.audience === audience && each.subject === 'client');
    return grant?.allowsAll === true ? this.resourceServer(audience)?.scopes.map(({ value }) => value) : grant?.scope;
  }

  /** The ids of a user's roles, in a set that callers change to assign or remove roles. */
  roleIdsOf(userId: string): Set<string> {
    const ids = this.roleIds.get(userId) ?? new Set();
    this.roleIds.set(userId, ids);
    return ids;
  }

  rolesOf(userId: string): RoleRecord[] {
    return Array.from(this.roleIds.get(userId) ?? [], (id) => this.roles.get(id)).filter((role) => role !== undefined);
  }

  membersOf(roleId: string): UserRecord[] {
    const ids = [...this.roleIds].filter(([, roleIds]) => roleIds.has(roleId)).map(([userId]) => userId);
    return ids.map((id) => this.users.get(id)).filter((user) => user !== undefined);
  }

  /** The names of the permissions that a user's roles give at one API, each once. */
  permissionsOf(userId: string, audience: string): string[] {
    const permissions = this.rolesOf(userId).flatMap((role) => role.permissions);
    return [...new Set(permissions.filter((each) => each.audience === audience).map(({ name }) => name))];
  }

  resourceServer(identifier: string): ResourceServerRecord | undefined {
    return [...this.resourceServers.values()].find((server) => server.identifier === identifier);
  }

  send(kind: Auth0Mail['kind'], { userId, email }: UserRecord): void {
    this.mails.push({ kind, to: email, userId, at: this.now(), roles: [...(this.roleIds.get(userId) ?? [])] });
  }

  private searchableAt(): number {
    return this.now() + this.settings.searchDelayMs;
  }
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** A random id in Auth0's form: a prefix such as `rol_`, followed by `length` letters and digits. */
export const newId = (prefix: string, length = 16): string =>
  prefix + Array.from(randomBytes(length), (byte) => ALPHABET[byte % ALPHABET.length]).join('');
