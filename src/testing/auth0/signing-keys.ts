import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { exportJWK, type JSONWebKeySet, type JWTPayload, SignJWT } from 'jose';

interface SigningKey {
  readonly id: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

/** The signing keys. All tenants use the same ones, because creating a key pair takes a while. */
const KEYS: SigningKey[] = [];

function keyAt(index: number): SigningKey {
  return (KEYS[index] ??= { id: randomUUID(), ...generateKeyPairSync('rsa', { modulusLength: 2048 }) });
}

/** The signing keys of a tenant. The current key, the next one, and older ones that aren't revoked are published. */
export class SigningKeys {
  private current = 0;
  private oldest = 0;

  /** Makes the next key the current one. The previous key stays published until `revokePrevious` is called. */
  rotate(): void {
    this.current++;
  }

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
