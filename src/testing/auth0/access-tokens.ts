import { randomUUID } from 'node:crypto';
import type { JSONWebKeySet } from 'jose';
import { ManagementError } from './management-error.js';
import { SigningKeys } from './signing-keys.js';
import type { Tenant } from './tenant.js';

export interface TokenRequest {
  readonly userId?: string;
  /** The id of the application that uses the token. Default: `caller`. */
  readonly clientId?: string;
  /** The token's permissions. Default: those of the user's roles or, for no user, of the application's grant. */
  readonly permissions?: readonly string[];
  /** The identifier of the API that the token is for. Default: the tenant's first API except the Management API. */
  readonly audience?: string;
  /** The scopes requested for a user's token, separated by blanks. Another token gets all permissions as scopes. */
  readonly scope?: string;
  /** The token's lifetime. A negative one makes an expired token. Default: the API's `token_lifetime`, or one day. */
  readonly lifetimeSeconds?: number;
  readonly claims?: Readonly<Record<string, unknown>>;
}

/** A refusal of Auth0's token endpoint, with the HTTP status and the members of an OAuth error. */
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

/** Issues access tokens of a simulated Auth0 tenant, and checks the tokens in requests to its Management API. */
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

  expireManagementTokens(): void {
    for (const token of this.management.values()) token.expiresAt = 0;
  }

  /**
   * Answers a request for an access token by client credentials.
   *
   * @throws TokenError when the request is invalid, or the application may not get a token for the API.
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

  /** @throws Error when the tenant doesn't have the API that the token is for. */
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
   * Returns the scopes of the Management API token in a request.
   *
   * @param authorization the request's `Authorization` header.
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

  private customerIds(userId: string | undefined): object {
    const metadata = userId === undefined ? undefined : this.tenant.users.get(userId)?.others?.app_metadata;
    if (!this.tenant.settings.hasCustomerIdAction || typeof metadata !== 'object' || metadata === null) return {};
    return 'customer_id' in metadata ? { customer_id: metadata.customer_id } : {};
  }
}
