import { randomBytes } from 'node:crypto';
import type { RateLimit } from './rate-limit.js';
import type { SearchGranularity } from './user-query.js';
import type { UserRecord } from './user-record.js';
import { UserStore } from './user-store.js';

/** The behaviour of the tenant. Each setting may be changed at any time. */
export interface Auth0Settings {
  /** The delay in milliseconds until the search finds a change. `Infinity` means until `indexUsers`. Default: 0. */
  searchDelayMs: number;
  /** The precision of `created_at` in the search, which Auth0 doesn't document. Default: milliseconds. */
  searchGranularity: SearchGranularity;
  /**
   * The rate limit for calls of the Management API, which all share one bucket. Paid plans have separate buckets for
   * some kinds of calls. Default: no limit.
   */
  rateLimit: RateLimit | undefined;
  /** The lifetime of tokens of the Management API, in seconds. Default: one day. */
  tokenLifetimeSeconds: number;
  /**
   * The largest page of any list except users: 100, or 50 as in the public cloud. The default page is half as large.
   */
  largestPage: 100 | 50;
  /**
   * How an assignment with an unknown role ends: with 404 or 400 for all its roles, or only without the unknown role.
   */
  unknownRole: 'not-found' | 'bad-request' | 'ignored';
  /** Whether the tenant has several custom domains. If so, POST /users is refused with 409. */
  hasSeveralCustomDomains: boolean;
  /** How many reads of an export job report the job as not finished. */
  exportReads: number;
  /** The final state of export jobs. */
  exportEnd: 'completed' | 'failed';
  /** Whether tokens have the claim `customer_id` with `app_metadata.customer_id`, as an Action would add it. */
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
  /** The organization that owns the role; missing for a role of the tenant. */
  readonly ownerId?: string;
}

export interface ApiScope {
  readonly value: string;
  readonly description?: string | undefined;
}

/** An API. `settings` has the members without a field of their own here, as they were sent. */
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
  /** Whether the grant applies to the application itself or to its users. */
  readonly subject: 'client' | 'user';
  scope: readonly string[];
  /** Whether the grant allows all scopes of the API. Undefined if `allow_all_scopes` was never set. */
  allowsAll: boolean | undefined;
}

/** A source of users, such as a database, through which these users sign in. */
export interface ConnectionRecord {
  readonly id: string;
  readonly name: string;
  readonly strategy: string;
  /** The ids of the applications that users can sign in to through this connection. */
  readonly enabledClients: Set<string>;
}

/** A mail that the tenant has sent. */
export interface Auth0Mail {
  readonly kind: 'verification' | 'change-password';
  readonly to: string;
  readonly userId: string;
  /** When the mail was sent, in milliseconds since 1970. */
  readonly at: number;
  /** The ids of the roles that the user had when the mail was sent. */
  readonly roles: readonly string[];
}

/** The state of a tenant. */
export class Tenant {
  readonly users = new UserStore();
  readonly roles = new Map<string, RoleRecord>();
  readonly resourceServers = new Map<string, ResourceServerRecord>();
  readonly clients = new Map<string, ClientRecord>();
  readonly clientGrants = new Map<string, ClientGrantRecord>();
  readonly mails: Auth0Mail[] = [];
  /** Whether organizations have roles of their own. If so, answers name the owner of each role. */
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

  /** An application's own scopes at an API; undefined without a grant. */
  grantOf(clientId: string, audience: string): readonly string[] | undefined {
    const grant = [...this.clientGrants.values()].find((each) => each.clientId === clientId && each.audience === audience && each.subject === 'client');
    return grant?.allowsAll === true ? this.resourceServer(audience)?.scopes.map(({ value }) => value) : grant?.scope;
  }

  /** The mutable set of a user's role ids. Callers add and remove ids in this set. */
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

  /** The names of the permissions that a user's roles give at an API, each once. */
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

/** An id in Auth0's form, as in `rol_` followed by 16 letters and digits. */
export const newId = (prefix: string, length = 16): string =>
  prefix + Array.from(randomBytes(length), (byte) => ALPHABET[byte % ALPHABET.length]).join('');
