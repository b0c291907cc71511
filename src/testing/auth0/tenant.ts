import { randomBytes } from 'node:crypto';
import type { RateLimit } from './rate-limit.js';
import type { SearchGranularity } from './user-query.js';
import type { UserRecord } from './user-record.js';
import { UserStore } from './user-store.js';

/** How a simulated Auth0 tenant behaves. A test may change each setting at any time. */
export interface Auth0Settings {
  /** The time until the search finds a change of a user. Default: 0. `Infinity`: until `Auth0StandIn.indexUsers`. */
  searchDelayMs: number;
  /** The precision to which the user search rounds `created_at`. Auth0 doesn't document it. Default: milliseconds. */
  searchGranularity: SearchGranularity;
  /**
   * The rate limit of the Management API: one token bucket for all calls. (Auth0's paid plans have separate buckets for
   * some kinds of calls.) Default: no limit.
   */
  rateLimit: RateLimit | undefined;
  /** The lifetime of access tokens for the Management API. Default: one day. */
  tokenLifetimeSeconds: number;
  /**
   * The maximum number of items per page in lists of roles, role members, permissions and APIs: 100, or 50 as in
   * Auth0's public cloud. Default: 100.
   */
  largestPage: 100 | 50;
  /**
   * The answer when well-formed ids of roles to assign include an unknown one: 404 or 400, or success after assigning
   * the others. Default: `not-found` (404).
   */
  unknownRole: 'not-found' | 'bad-request' | 'ignored';
  /** Whether the tenant has several custom domains, so that POST /users is refused with 409. Default: false. */
  hasSeveralCustomDomains: boolean;
  /** How many reads of an export job report that it is in progress, before one reports its end. Default: 1. */
  exportReads: number;
  exportEnd: 'completed' | 'failed';
  /** Whether an Auth0 Action (a script) copies `app_metadata.customer_id` into users' tokens. Default: false. */
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
  readonly ownerId?: string;
}

export interface ApiScope {
  readonly value: string;
  readonly description?: string | undefined;
}

/**
 * An API of a simulated Auth0 tenant. `settings` contains the API's members without a property of their own here: as
 * sent, or with Auth0's defaults.
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
  /** Whether the application may use the scopes for itself (`client`) or on behalf of its users (`user`). */
  readonly subject: 'client' | 'user';
  scope: readonly string[];
  allowsAll: boolean | undefined;
}

export interface ConnectionRecord {
  readonly id: string;
  readonly name: string;
  readonly strategy: string;
  readonly enabledClients: Set<string>;
}

export interface Auth0Mail {
  readonly kind: 'verification' | 'change-password';
  readonly to: string;
  readonly userId: string;
  /** When the mail was sent, in milliseconds since 1970. */
  readonly at: number;
  readonly roles: readonly string[];
}

/** The state of a simulated Auth0 tenant. */
export class Tenant {
  readonly users = new UserStore();
  readonly roles = new Map<string, RoleRecord>();
  readonly resourceServers = new Map<string, ResourceServerRecord>();
  readonly clients = new Map<string, ClientRecord>();
  readonly clientGrants = new Map<string, ClientGrantRecord>();
  readonly mails: Auth0Mail[] = [];
  /** Whether a role of an organization was ever added. If so, answers say who owns each role. */
  hasOrganizationRoles = false;
  private readonly roleIds = new Map<string, Set<string>>();

  /**
   * @param domain the base URL of the tenant, without a trailing slash.
   * @param now the current time, in milliseconds since 1970.
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

  grantOf(clientId: string, audience: string): readonly string[] | undefined {
    const grant = [...this.clientGrants.values()].find((each) => each.clientId === clientId && each.audience === audience && each.subject === 'client');
    return grant?.allowsAll === true ? this.resourceServer(audience)?.scopes.map(({ value }) => value) : grant?.scope;
  }

  /** The ids of a user's roles. Changing the returned set changes the roles of the user. */
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

/** Returns a random id in Auth0's form: a prefix such as `rol_`, and `length` letters and digits. */
export const newId = (prefix: string, length = 16): string =>
  prefix + Array.from(randomBytes(length), (byte) => ALPHABET[byte % ALPHABET.length]).join('');
