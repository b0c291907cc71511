import { randomUUID } from 'node:crypto';
import { type JSONWebKeySet, SignJWT } from 'jose';
import { PERMISSIONS } from '../../../../authentication/permissions.js';
import type { SigningKeys } from './signing-keys.js';

/** The lifetime of an access token, in seconds. */
export const ACCESS_TOKEN_LIFETIME = 3600;
export const ADMIN_CLIENT_ID = 'admin';

export interface TokenIssuerOptions {
  /** The `iss` of tokens. The port may be known only once the service listens. */
  readonly issuer: () => string;
  readonly audience: string;
}

interface Grant {
  readonly subject: string;
  readonly permissions: readonly string[];
  readonly customerIds: readonly string[];
}

/** Issues access tokens: JWTs in the profile of RFC 9068, signed with RS256, valid for one hour. */
export class TokenIssuer {
  constructor(
    private readonly keys: () => Promise<SigningKeys>,
    private readonly permissionsOf: (userId: string) => Promise<readonly string[]>,
    private readonly options: TokenIssuerOptions,
  ) {}

  /** Issues a token with every permission of the service, for the given customers (all if there are none). */
  administratorToken(customerIds: readonly string[] = []): Promise<string> {
    return this.sign({
      subject: ADMIN_CLIENT_ID,
      permissions: PERMISSIONS,
      customerIds: customerIds.length === 0 ? ['*'] : customerIds,
    });
  }

  /**
   * Issues a user's token, with the permissions that the user's roles give now, for the given customers only.
   *
   * @throws UserNotFound; other errors of `permissionsOf`.
   */
  async userToken(userId: string, customerIds: readonly string[] = []): Promise<string> {
    return this.sign({ subject: userId, permissions: await this.permissionsOf(userId), customerIds });
  }

  /** The public keys that verify tokens (RFC 7517). */
  async publicKeySet(): Promise<JSONWebKeySet> {
    return { keys: (await this.keys()).map(({ publicJwk }) => ({ ...publicJwk })) };
  }

  private async sign({ subject, permissions, customerIds }: Grant): Promise<string> {
    const [{ keyId, privateKey }] = await this.keys();
    const now = Math.floor(Date.now() / 1000);
    const customers = customerIds.length > 1 ? customerIds : customerIds[0];
    return new SignJWT({ client_id: ADMIN_CLIENT_ID, permissions, customer_id: customers })
      .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid: keyId })
      .setIssuer(this.options.issuer())
      .setAudience(this.options.audience)
      .setSubject(subject)
      .setIssuedAt(now)
      .setExpirationTime(now + ACCESS_TOKEN_LIFETIME)
      .setJti(randomUUID())
      .sign(privateKey);
  }
}
