import { randomBytes } from 'node:crypto';
import type { RateLimit } from './rate-limit.js';
import type { SearchGranularity } from './user-query.js';
import type { UserRecord } from './user-record.js';
import { UserStore } from './user-store.js';

/** How the tenant behaves. Each may be changed at any time. */
export interface Auth0Settings {
  /** How long the search doesn't know of a change; `Infinity` until `indexUsers`. 0 unless set. */
  searchDelayMs: number;
  /** How finely the search knows `created_at`. Milliseconds unless set; nothing says that Auth0 does. */
  searchGranularity: SearchGranularity;
  /** Calls of the Management API, all from one bucket; a paid plan has one for each of some kinds. No limit unless set. */
  rateLimit: RateLimit | undefined;
  /** How long tokens of the Management API live; a day unless set. */
  tokenLifetimeSeconds: number;
  /** What a page of anything but users holds at most: 100, or 50 as in the public cloud. Half of it is the default. */
  largestPage: 100 | 50;
  /** What becomes of an assignment with an unknown role: refused as a whole with 404 or 400, or the role is passed over. */
  unknownRole: 'not-found' | 'bad-request' | 'ignored';
  /** Whether POST /users wants to know the custom domain. */
  hasSeveralCustomDomains: boolean;
  /** How many reads of an export job find it not yet done. */
  exportReads: number;
  /** How export jobs end. */
  exportEnd: 'completed' | 'failed';
  /** Whether tokens carry `app_metadata.customer_id` as the claim `customer_id`, as an Action does. */
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
  /** The organization whose role it is; left out for the tenant's. */
  readonly ownerId?: string;
}

export interface ApiScope {
  readonly value: string;
  readonly description?: string | undefined;
}

/** An API; what isn't named here is kept as it was sent. */
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
  /** Whether it is about what the application does by itself or for its users. */
  readonly subject: 'client' | 'user';
  scope: readonly string[];
  /** Undefined where nobody said so. */
  allowsAll: boolean | undefined;
}

/** Where users sign in. */
export interface ConnectionRecord {
  readonly id: string;
  readonly name: string;
  readonly strategy: string;
  /** The applications that users can sign in to by it. */
  readonly enabledClients: Set<string>;
}

/** A mail that the tenant has sent. */
export interface Auth0Mail {
  readonly kind: 'verification' | 'change-password';
  readonly to: string;
  readonly userId: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** The ids of the roles that the user had at that moment. */
  readonly roles: readonly string[];
}

/** What a tenant keeps. */
export class Tenant {
  readonly users = new UserStore();
  readonly roles = new Map<string, RoleRecord>();
  readonly resourceServers = new Map<string, ResourceServerRecord>();
  readonly clients = new Map<string, ClientRecord>();
  readonly clientGrants = new Map<string, ClientGrantRecord>();
  readonly mails: Auth0Mail[] = [];
  /** Whether organizations have roles of their own, so that each role says whose it is. */
  hasOrganizationRoles = false;
  private readonly roleIds = new Map<string, Set<string>>();

  /**
   * @param domain where the tenant is, without a slash at its end.
   * @param now milliseconds since 1970.
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

  /** What the application may do by itself at an API. */
  grantOf(clientId: string, audience: string): readonly string[] | undefined {
    const grant = [...this.clientGrants.values()].find((each) => each.clientId === clientId && each.audience === audience && each.subject === 'client');
    return grant?.allowsAll === true ? this.resourceServer(audience)?.scopes.map(({ value }) => value) : grant?.scope;
  }

  /** To be changed by whoever gives and takes roles. */
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

  /** What the user's roles permit at an API, each once. */
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

/** An id of Auth0's form, as in `rol_` and 16 letters and digits. */
export const newId = (prefix: string, length = 16): string =>
  prefix + Array.from(randomBytes(length), (byte) => ALPHABET[byte % ALPHABET.length]).join('');
