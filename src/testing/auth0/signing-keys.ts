import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { exportJWK, type JSONWebKeySet, type JWTPayload, SignJWT } from 'jose';

interface SigningKey {
  readonly id: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

const newKey = (): SigningKey => ({ id: randomUUID(), ...generateKeyPairSync('rsa', { modulusLength: 2048 }) });

/** A tenant's signing keys: one in use, the next, and those before it. */
export class SigningKeys {
  private next = newKey();
  private current = newKey();
  private previous: SigningKey[] = [];

  /** Signs with the next key from now on; tokens signed before stay valid. */
  rotate(): void {
    this.previous = [this.current, ...this.previous];
    this.current = this.next;
    this.next = newKey();
  }

  /** Takes the previous keys out of the key set. */
  revokePrevious(): void {
    this.previous = [];
  }

  async keySet(): Promise<JSONWebKeySet> {
    const keys = [this.current, this.next, ...this.previous].map(async ({ id, publicKey }) => ({
      ...(await exportJWK(publicKey)),
      kid: id,
      use: 'sig',
      alg: 'RS256',
    }));
    return { keys: await Promise.all(keys) };
  }

  sign(payload: JWTPayload, type: string): Promise<string> {
    return new SignJWT(payload).setProtectedHeader({ alg: 'RS256', typ: type, kid: this.current.id }).sign(this.current.privateKey);
  }
}
