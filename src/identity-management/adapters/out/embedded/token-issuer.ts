import { randomUUID } from 'node:crypto';
import { type JSONWebKeySet, SignJWT } from 'jose';
import { PERMISSIONS } from '../../../../authentication/permissions.js';
import type { SigningKeys } from './signing-keys.js';

/** The lifetime of access tokens, in seconds. */
export const ACCESS_TOKEN_LIFETIME = 3600;
/** The id of the token issuer's only OAuth 2 client. */
export const ADMIN_CLIENT_ID = 'admin';

export interface TokenIssuerOptions {
  /**
   * Returns the `iss` of the tokens. Called each time it is needed, because the port may be known only once the service
   * listens.
   */
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
    private readonly keys: SigningKeys,
    private readonly permissionsOf: (userId: string) => Promise<readonly string[]>,
    private readonly options: TokenIssuerOptions,
  ) {}

  /**
   * Issues the administrator's token, which has every permission of the service. The token gives access to the
   * customers in `customerIds`; if there are none, to all customers.
   */
  administratorToken(customerIds: readonly string[] = []): Promise<string> {
    return this.sign({
      subject: ADMIN_CLIENT_ID,
      permissions: PERMISSIONS,
      customerIds: customerIds.length === 0 ? ['*'] : customerIds,
    });
  }

  /**
   * Issues a user's token. The token has the permissions that the user's roles currently give, and access to the
   * customers in `customerIds`; if there are none, to no customer.
   *
   * @throws UserNotFound; other errors of `permissionsOf`.
   */
  async userToken(userId: string, customerIds: readonly string[] = []): Promise<string> {
    return this.sign({ subject: userId, permissions: await this.permissionsOf(userId), customerIds });
  }

  /** The public keys that verify tokens (RFC 7517). */
  publicKeySet(): JSONWebKeySet {
    return { keys: this.keys.map(({ publicJwk }) => ({ ...publicJwk })) };
  }

  private sign({ subject, permissions, customerIds }: Grant): Promise<string> {
    const [{ keyId, privateKey }] = this.keys;
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
