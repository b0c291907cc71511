import { createPublicKey, type KeyObject } from 'node:crypto';
import type { JSONWebKeySet, JWK } from 'jose';

/** The accepted signature algorithms: asymmetric ones, so that nobody can sign with a public key as the secret. */
export const ALGORITHMS = [
  'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512',
] as const;

export type SignatureAlgorithm = (typeof ALGORITHMS)[number];

const MIN_RSA_BITS = 2048; // The minimum length of an RSA key (RFC 7518, sections 3.3 and 3.5).

export interface VerificationKey {
  readonly key: KeyObject;
  readonly algorithm: SignatureAlgorithm;
}

/**
 * The keys of a key set that may verify signatures with ALGORITHMS, by `kid`; the first usable one if a `kid` is
 * repeated. A key without `alg` counts as one for RS256. RSA keys of less than 2048 bits are skipped.
 */
export function verificationKeys(jwks: JSONWebKeySet): Map<string, VerificationKey> {
  const keys = new Map<string, VerificationKey>();
  for (const jwk of jwks.keys) {
    if (jwk.kid === undefined || keys.has(jwk.kid)) continue;
    const key = verificationKey(jwk);
    if (key) keys.set(jwk.kid, key);
  }
  return keys;
}

function verificationKey(jwk: JWK): VerificationKey | undefined {
  const algorithm = ALGORITHMS.find((name) => name === (jwk.alg ?? 'RS256'));
  if (!algorithm || !isForSignatures(jwk)) return undefined;
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' });
    const bits = key.asymmetricKeyDetails?.modulusLength;
    return bits !== undefined && bits < MIN_RSA_BITS ? undefined : { key, algorithm };
  } catch {
    return undefined; // A key that Node doesn't support is skipped, so that the other keys can be used.
  }
}

const isForSignatures = ({ use, key_ops: operations }: JWK): boolean =>
  (use ?? 'sig') === 'sig' && (operations === undefined || (Array.isArray(operations) && operations.includes('verify')));
