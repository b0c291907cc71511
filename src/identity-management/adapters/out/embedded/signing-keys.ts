import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { calculateJwkThumbprint, type JWK } from 'jose';
import { DataDirectoryError } from '../../../../common/data-directory/data-directory-error.js';
import { privateDirectory, readOrCreate } from './private-files.js';
import { type AvailableStore, RenewedFile } from './renewed-file.js';

const MIN_MODULUS_BITS = 2048;

export interface SigningKey {
  readonly keyId: string;
  readonly privateKey: KeyObject;
  /** The public key as it is published, without private members. */
  readonly publicJwk: JWK;
}

/**
 * The token issuer's keys. The first one signs new tokens; all are published. To rotate the keys, put the new key
 * first, and keep the old one until the tokens that it signed have expired.
 */
export type SigningKeys = readonly [SigningKey, ...SigningKey[]];

/** The signing keys of a running service, which are read again when their file has been replaced. */
export const renewedSigningKeys = (dataDirectory: string, store: AvailableStore): Promise<RenewedFile<SigningKeys>> =>
  RenewedFile.open(pathIn(dataDirectory), 'The signing keys from before stay in use.', (isFirst) => loadSigningKeys(dataDirectory, { create: isFirst }), store);

const pathIn = (dataDirectory: string): string => join(dataDirectory, 'identity', 'signing-keys.json');

/**
 * Loads the token issuer's keys from `DATA_DIR/identity/signing-keys.json`, an array of private JWKs (RFC 7517). A
 * missing file is created with one new key.
 *
 * @param create must be false while the service runs, because new keys would make all earlier tokens invalid.
 * @throws DataDirectoryError when the file is missing and `create` is false, or is anything but a regular file with one
 * or more private RSA keys of at least 2048 bits; errors of the file system.
 */
export async function loadSigningKeys(dataDirectory: string, { create = true } = {}): Promise<SigningKeys> {
  if (create) privateDirectory(dataDirectory);
  const path = pathIn(dataDirectory);
  const text = await readOrCreate(path, () => {
    if (!create) throw new DataDirectoryError(`${path} is gone while the service runs: put it back; a restart makes new keys, and all tokens become invalid`);
    return newSigningKeys();
  });
  try {
    const [first, ...others] = await Promise.all((JSON.parse(text) as JWK[]).map(signingKey));
    if (!first) throw new Error('no key');
    return [first, ...others];
  } catch {
    // The original error isn't passed on, because its message might quote a private key.
    const remedy = create ? 'Put the keys back, or remove the file to get a new one.' : 'Put the keys back.';
    throw new DataDirectoryError(`${path} must be a JSON array of private RSA keys (JWK) of ${MIN_MODULUS_BITS} bits or more. ${remedy}`);
  }
}

async function newSigningKeys(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: MIN_MODULUS_BITS });
  const jwk = privateKey.export({ format: 'jwk' });
  const kid = await calculateJwkThumbprint(jwk);
  return `${JSON.stringify([{ ...jwk, kid, alg: 'RS256', use: 'sig' }], undefined, 2)}\n`;
}

async function signingKey(jwk: JWK): Promise<SigningKey> {
  const privateKey = createPrivateKey({ key: jwk, format: 'jwk' });
  if ((privateKey.asymmetricKeyDetails?.modulusLength ?? 0) < MIN_MODULUS_BITS) throw new Error('weak key');
  const publicJwk = createPublicKey(privateKey).export({ format: 'jwk' }) as JWK;
  const keyId = jwk.kid ?? (await calculateJwkThumbprint(publicJwk));
  return { keyId, privateKey, publicJwk: { ...publicJwk, kid: keyId, alg: 'RS256', use: 'sig' } };
}
