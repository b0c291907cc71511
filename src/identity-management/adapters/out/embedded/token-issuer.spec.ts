import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PERMISSIONS } from '../../../../authentication/permissions.js';
import { UserNotFound } from '../../../domain/errors.js';
import { loadSigningKeys } from './signing-keys.js';
import { TokenIssuer } from './token-issuer.js';

describe('TokenIssuer', () => {
  const directory = mkdtempSync(join(tmpdir(), 'tokens-'));
  let issuer = 'http://127.0.0.1:3000/idp';
  let tokens: TokenIssuer;
  const permissions = new Map([['embedded|ada', ['read:users']]]);

  beforeAll(async () => {
    const permissionsOf = (userId: string) => {
      const found = permissions.get(userId);
      return found ? Promise.resolve(found) : Promise.reject(new UserNotFound('user_id'));
    };
    const signingKeys = await loadSigningKeys(directory);
    tokens = new TokenIssuer(() => Promise.resolve(signingKeys), permissionsOf, { issuer: () => issuer, audience: 'load-data-api' });
  });
  afterAll(() => {
    rmSync(directory, { recursive: true });
  });

  const verify = async (token: string) =>
    jwtVerify(token, createLocalJWKSet(await tokens.publicKeySet()), {
      issuer,
      audience: 'load-data-api',
      algorithms: ['RS256'],
      typ: 'at+jwt',
      requiredClaims: ['iss', 'aud', 'sub', 'client_id', 'iat', 'exp', 'jti'],
    });

  it('gives the administrator every permission and every customer, for one hour', async () => {
    const before = Math.floor(Date.now() / 1000);
    const token = await tokens.administratorToken();
    const { payload, protectedHeader } = await verify(token);
    expect(protectedHeader).toEqual({ alg: 'RS256', typ: 'at+jwt', kid: (await tokens.publicKeySet()).keys[0]?.kid });
    expect(payload).toEqual({
      iss: issuer,
      aud: 'load-data-api',
      sub: 'admin',
      client_id: 'admin',
      permissions: [...PERMISSIONS],
      customer_id: '*',
      iat: payload.iat,
      exp: (payload.iat ?? 0) + 3600,
      jti: payload.jti,
    });
    expect(payload.iat).toBeGreaterThanOrEqual(before);
    expect(payload.iat).toBeLessThanOrEqual(Math.floor(Date.now() / 1000));
  });

  it('gives every token its own id', async () => {
    const [one, other] = await Promise.all([tokens.administratorToken(), tokens.administratorToken()]);
    expect((await verify(one)).payload.jti).not.toBe((await verify(other)).payload.jti);
  });

  it.each([
    { customers: ['42'], claim: '42' },
    { customers: ['42', '43'], claim: ['42', '43'] },
  ])('writes the customers $customers as the claim $claim', async ({ customers, claim }) => {
    expect((await verify(await tokens.administratorToken(customers))).payload.customer_id).toEqual(claim);
    expect((await verify(await tokens.userToken('embedded|ada', customers))).payload.customer_id).toEqual(claim);
  });

  it('gives a user their current permissions, and no customer by default', async () => {
    const { payload } = await verify(await tokens.userToken('embedded|ada'));
    expect(payload).toMatchObject({ sub: 'embedded|ada', permissions: ['read:users'] });
    expect(payload).not.toHaveProperty('customer_id');
    permissions.set('embedded|ada', ['read:roles']);
    expect((await verify(await tokens.userToken('embedded|ada'))).payload.permissions).toEqual(['read:roles']);
  });

  it('issues no token for a user that the provider does not know', async () => {
    await expect(tokens.userToken('embedded|eve')).rejects.toThrow(UserNotFound);
  });

  it('reads the issuer for each token', async () => {
    issuer = 'https://example.com/base/idp';
    expect((await verify(await tokens.administratorToken())).payload.iss).toBe(issuer);
  });

  it('signs with the first key, and publishes all keys without their private members', async () => {
    const [first] = await loadSigningKeys(directory);
    const other = mkdtempSync(join(tmpdir(), 'tokens-'));
    const [second] = await loadSigningKeys(other);
    rmSync(other, { recursive: true });
    const both = new TokenIssuer(() => Promise.resolve([second, first]), () => Promise.resolve([]), { issuer: () => issuer, audience: 'a' });
    expect(decodeProtectedHeader(await both.administratorToken()).kid).toBe(second.keyId);
    const { keys } = await both.publicKeySet();
    expect(keys.map(({ kid }) => kid)).toEqual([second.keyId, first.keyId]);
    for (const key of keys) {
      expect(Object.keys(key).sort()).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use']);
      expect(key).toMatchObject({ alg: 'RS256', use: 'sig', kty: 'RSA' });
    }
  });
});
