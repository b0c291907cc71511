import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { exportJWK, type JSONWebKeySet, type JWTPayload, SignJWT } from 'jose';

interface SigningKey {
  readonly id: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/** The key pairs, which all tenants of a process share, because creating a key pair takes a while. */
const KEYS: SigningKey[] = [];

function keyAt(index: number): SigningKey {
  return (KEYS[index] ??= { id: randomUUID(), ...generateKeyPairSync('rsa', { modulusLength: 2048 }) });
}

/** A tenant's keys for signing tokens: the current key, the next one, and earlier ones that aren't revoked. */
export class SigningKeys {
  private current = 0;
  private oldest = 0;

  /**
   * From now on, signs tokens with the next key. The previous key stays in the published key set until
   * `revokePrevious`.
   */
  rotate(): void {
    this.current++;
  }

  /** Removes all keys before the current one from the published key set. */
  revokePrevious(): void {
    this.oldest = this.current;
  }

  async keySet(): Promise<JSONWebKeySet> {
    const count = this.current + 2 - this.oldest;
    const keys = Array.from({ length: count }, (_, index) => keyAt(this.oldest + index)).map(async ({ id, publicKey }) => ({
      ...(await exportJWK(publicKey)),
      kid: id,
      use: 'sig',
      alg: 'RS256',
    }));
    return { keys: await Promise.all(keys) };
  }

  sign(payload: JWTPayload, type: string): Promise<string> {
    const { id, privateKey } = keyAt(this.current);
    return new SignJWT(payload).setProtectedHeader({ alg: 'RS256', typ: type, kid: id }).sign(privateKey);
  }
}
