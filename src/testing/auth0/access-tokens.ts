import { randomUUID } from 'node:crypto';
import type { JSONWebKeySet } from 'jose';
import { ManagementError } from './management-error.js';
import { SigningKeys } from './signing-keys.js';
import type { Tenant } from './tenant.js';

/** Describes an access token to issue: the API and the caller that it is for, and its contents. */
export interface TokenRequest {
  /**
   * The id of the user for whom the token is issued. Unless `permissions` is given, the user's roles determine the
   * token's permissions.
   */
  readonly userId?: string;
  /**
   * The id of the application that uses the token. Default: `caller`. If neither `userId` nor `permissions` is given,
   * the application's client grant determines the token's permissions.
   */
  readonly clientId?: string;
  /**
   * The token's permissions. Default: those of the user's roles or, without a user, of the application's client grant.
   */
  readonly permissions?: readonly string[];
  /** The identifier of the API that the token is for. Default: the tenant's first API except the Management API. */
  readonly audience?: string;
  /**
   * The scopes that the application requested for the token, separated by blanks. Without `userId`, the token's scopes
   * are all its permissions, whatever was requested.
   */
  readonly scope?: string;
  /** The token's lifetime in seconds. Negative: an expired token. Default: the API's `token_lifetime`, or one day. */
  readonly lifetimeSeconds?: number;
  /** Claims to add to the token. They replace claims of the same name that the token would have otherwise. */
  readonly claims?: Readonly<Record<string, unknown>>;
}

/** An error with which the token endpoint refuses a token. Has the members of an OAuth error. */
export class TokenError extends Error {
  override readonly name = 'TokenError';

  constructor(
    readonly status: number,
    readonly error: string,
    message: string,
  ) {
    super(message);
  }
}

const DAY_S = 86_400;

/** Issues the tenant's access tokens, and checks the tokens in requests to the Management API. */
export class AccessTokens {
  private readonly keys = new SigningKeys();
  private readonly management = new Map<string, { scopes: ReadonlySet<string>; expiresAt: number }>();

  constructor(private readonly tenant: Tenant) {}

  get issuer(): string {
    return `${this.tenant.domain}/`;
  }

  keySet(): Promise<JSONWebKeySet> {
    return this.keys.keySet();
  }

  rotateKeys(): void {
    this.keys.rotate();
  }

  revokePreviousKeys(): void {
    this.keys.revokePrevious();
  }

  /** Makes all Management API tokens that were issued so far count as expired. */
  expireManagementTokens(): void {
    for (const token of this.management.values()) token.expiresAt = 0;
  }

  /**
   * Answers a request for a token with the grant type client credentials, as Auth0's token endpoint does.
   *
   * @param parameters the members of the request's body.
   * @throws TokenError when Auth0's token endpoint would refuse the token.
   */
  async grant(parameters: Readonly<Record<string, unknown>>): Promise<object> {
    const { grant_type: grantType, client_id: clientId, client_secret: secret, audience } = parameters;
    if (typeof grantType !== 'string') throw new TokenError(400, 'invalid_request', 'Missing required parameter: grant_type');
    if (grantType !== 'client_credentials') throw new TokenError(403, 'unauthorized_client', `Grant type '${grantType}' not allowed for the client.`);
    const client = typeof clientId === 'string' ? this.tenant.clients.get(clientId) : undefined;
    if (!client || client.secret !== secret) throw new TokenError(401, 'access_denied', 'Unauthorized');
    const { grant_types: grantTypes } = client.settings;
    if (!Array.isArray(grantTypes) || !grantTypes.includes(grantType)) {
      throw new TokenError(403, 'unauthorized_client', `Grant type '${grantType}' not allowed for the client.`);
    }
    if (typeof audience !== 'string' || !this.tenant.resourceServer(audience)) {
      throw new TokenError(403, 'access_denied', `Service not enabled within domain: ${String(audience)}`);
    }
    const scopes = this.tenant.grantOf(client.id, audience);
    if (!scopes) {
      throw new TokenError(
        403,
        'access_denied',
        `Client is not authorized to access "${audience}". You might probably want to create a "client-grant" associated to this API. See: https://auth0.com/docs/api/v2#!/Client_Grants/post_client_grants`,
      );
    }
    const isManagement = audience === this.tenant.managementAudience;
    const lifetime = isManagement ? this.tenant.settings.tokenLifetimeSeconds : this.lifetimeOf(audience);
    const token = isManagement
      ? await this.issueForManagement(client.id, scopes)
      : await this.issue({ clientId: client.id, audience, lifetimeSeconds: lifetime });
    return { access_token: token, scope: scopes.join(' '), expires_in: lifetime, token_type: 'Bearer' };
  }

  /**
   * Issues a token of the Management API with the given scopes. Doesn't check that the application was granted them.
   */
  async issueForManagement(clientId: string, scopes: readonly string[]): Promise<string> {
    const { managementAudience: audience, settings, now } = this.tenant;
    const [scope, lifetimeSeconds] = [scopes.join(' '), settings.tokenLifetimeSeconds];
    const times = this.times(lifetimeSeconds);
    const token = await this.keys.sign(
      { iss: this.issuer, sub: `${clientId}@clients`, aud: audience, ...times, scope, gty: 'client-credentials', azp: clientId, jti: randomUUID() },
      'JWT',
    );
    this.management.set(token, { scopes: new Set(scopes), expiresAt: now() + lifetimeSeconds * 1000 });
    return token;
  }

  /**
   * Issues a token of an API in the form that the API's settings `token_dialect` and `enforce_policies` determine.
   *
   * @throws Error when the tenant has no such API.
   */
  async issue({ userId, clientId = 'caller', permissions, audience, scope, lifetimeSeconds, claims }: TokenRequest): Promise<string> {
    const { tenant } = this;
    const server = [...tenant.resourceServers.values()].find(({ identifier, isSystem }) =>
      audience === undefined ? !isSystem : identifier === audience,
    );
    if (!server) throw new Error('The tenant has no such API.');
    const { identifier, settings } = server;
    const permitted = permissions ?? (userId === undefined ? (tenant.grantOf(clientId, identifier) ?? []) : tenant.permissionsOf(userId, identifier));
    const dialect = typeof settings.token_dialect === 'string' ? settings.token_dialect : 'access_token';
    const isRbac = settings.enforce_policies === true && dialect.endsWith('_authz');
    const isRfc9068 = dialect.startsWith('rfc9068');
    const asked = scope?.split(' ') ?? [];
    const granted = userId === undefined ? permitted : asked.filter((each) => each === 'openid' || permitted.includes(each));
    const payload = {
      iss: this.issuer,
      sub: userId ?? `${clientId}@clients`,
      aud: asked.includes('openid') ? [identifier, `${tenant.domain}/userinfo`] : identifier,
      ...this.times(lifetimeSeconds ?? this.lifetimeOf(identifier)),
      ...(granted.length > 0 && { scope: granted.join(' ') }),
      ...(isRfc9068 ? { client_id: clientId, jti: randomUUID() } : { azp: clientId, ...(userId === undefined && { gty: 'client-credentials' }) }),
      ...(isRbac && { permissions: permitted }),
      ...this.customerIds(userId),
      ...claims,
    };
    return this.keys.sign(payload, isRfc9068 ? 'at+jwt' : 'JWT');
  }

  /**
   * Checks the access token in a request to the Management API, and returns its scopes.
   *
   * @param authorization the request's `Authorization` header; undefined if it is missing.
   * @throws ManagementError 400 for a malformed header; 401 for a missing header, or an unknown or expired token.
   */
  scopesOf(authorization: string | undefined): ReadonlySet<string> {
    if (authorization === undefined) throw new ManagementError(401, 'Missing authentication');
    const token = /^Bearer ([\w-]+\.[\w-]+\.[\w-]+)$/i.exec(authorization)?.[1];
    if (token === undefined) throw new ManagementError(400, 'Bad HTTP authentication header format', 'Bearer');
    const known = this.management.get(token);
    if (!known) throw new ManagementError(401, 'Invalid token.');
    if (known.expiresAt <= this.tenant.now()) throw new ManagementError(401, 'Expired token received for JSON Web Token validation');
    return known.scopes;
  }

  private times(lifetimeSeconds: number): { iat: number; exp: number } {
    const now = Math.floor(this.tenant.now() / 1000);
    return { iat: Math.min(now, now + lifetimeSeconds), exp: now + lifetimeSeconds };
  }

  private lifetimeOf(audience: string): number {
    const lifetime = this.tenant.resourceServer(audience)?.settings.token_lifetime;
    return typeof lifetime === 'number' ? lifetime : DAY_S;
  }

  /**
   * The claim `customer_id` for a user's token, from the user's `app_metadata`. Empty if that has no `customer_id`, or
   * if the tenant has no Action (a script that Auth0 runs) that adds the claim.
   */
  private customerIds(userId: string | undefined): object {
    const metadata = userId === undefined ? undefined : this.tenant.users.get(userId)?.others?.app_metadata;
    if (!this.tenant.settings.hasCustomerIdAction || typeof metadata !== 'object' || metadata === null) return {};
    return 'customer_id' in metadata ? { customer_id: metadata.customer_id } : {};
  }
}
