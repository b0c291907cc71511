import { createPublicKey } from 'node:crypto';
import { inspect } from 'node:util';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { anyText } from '../../test/support/any-text.js';
import { casesOf } from '../../test/support/cases.js';
import { sharedRsaKey } from '../../test/support/signing-keys.js';
import type { AuthenticationOptions } from './authentication.options.js';
import { PassportAccessTokenVerifier } from './passport.access-token-verifier.js';
import { AUDIENCE, ecKey, jwkOf, now, requestWith, signToken, TestIssuer } from '../testing/test-issuer.js';

const key = sharedRsaKey(0);
const foreign = sharedRsaKey(1);
const ps = sharedRsaKey(2);
const es = ecKey();
const pem = createPublicKey(key).export({ format: 'pem', type: 'spki' });

const ISSUER = 'https://issuer.example';
const issuer = new TestIssuer();
beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: 1_800_000_000_000 });
  issuer.keys = [
    jwkOf(key, { kid: 'plain' }),
    jwkOf(key, { kid: 'named', alg: 'RS256', use: 'sig' }),
    jwkOf(key, { kid: 'rs512', alg: 'RS512' }),
    jwkOf(ps, { kid: 'ps', alg: 'PS256' }),
    jwkOf(es, { kid: 'es', alg: 'ES256' }),
    jwkOf(es, { kid: 'es named rs', alg: 'RS256' }),
    jwkOf(es, { kid: 'es unnamed' }),
    jwkOf(key, { kid: 'enc', use: 'enc' }),
    jwkOf(key, { kid: 'k'.repeat(256) }),
    jwkOf(key, { kid: 'k'.repeat(257) }),
  ];
  await issuer.start();
});
afterAll(async () => {
  vi.useRealTimers();
  await issuer.stop();
});

const verifierFor = (options: Partial<AuthenticationOptions> = {}) => {
  return new PassportAccessTokenVerifier({ issuer: ISSUER, audience: AUDIENCE, keySet: { url: issuer.keySetUrl }, ...options });
};

type Members = Readonly<Record<string, unknown>>;
const header = (members: Members = {}) => ({ alg: 'RS256', kid: 'plain', typ: 'at+jwt', ...members });
const payload = (members: Members = {}) => ({
  iss: ISSUER, aud: AUDIENCE, sub: 'somebody', iat: now(), exp: now() + 600, permissions: ['read:users'], ...members,
});
/**
 * A token that is valid except for the given claims and the given members of its header. A member that is undefined is
 * left out of the token.
 */
const token = (claims: Members = {}, head: Members = {}, signer: Parameters<typeof signToken>[0] = key) =>
  signToken(signer, header(head), payload(claims));
const bearer = (text: string) => requestWith(`Bearer ${text}`);
/** A valid token of exactly `length` characters. */
const tokenOf = (length: number) => {
  for (let size = Math.floor((length - token().length) * 0.75) - 32; ; size++) {
    // A base64url text never has 4n+1 characters, so that a longer payload alone can't give the token every length. A
    // header with one character more makes the remaining lengths possible.
    for (const more of ['', 'x']) {
      const text = token({ filler: 'x'.repeat(size) }, { more });
      if (text.length === length) return text;
    }
  }
};

describe('a token that is accepted', () => {
  it.each<[string, () => ReturnType<typeof requestWith>]>([
    ['as issued by the embedded provider', () => bearer(token())],
    ['without typ, as RFC 7515 allows', () => bearer(token({}, { typ: undefined }))],
    ['of typ JWT', () => bearer(token({}, { typ: 'JWT' }))],
    ['of typ jwt', () => bearer(token({}, { typ: 'jwt' }))],
    ['of typ application/at+jwt', () => bearer(token({}, { typ: 'application/AT+JWT' }))],
    ['as issued by Keycloak', () => bearer(token({ typ: 'Bearer' }, { typ: 'JWT' }))],
    ['as issued by Cognito', () => bearer(token({ token_use: 'access' }))],
    ['for several audiences', () => bearer(token({ aud: ['account', AUDIENCE] }))],
    ['without iat', () => bearer(token({ iat: undefined }))],
    ['expired within the tolerance', () => bearer(token({ exp: now() - 4 }))],
    ['not valid yet, within the tolerance', () => bearer(token({ nbf: now() + 5, iat: now() + 5 }))],
    ['under a key with alg RS256', () => bearer(token({}, { kid: 'named' }))],
    ['under a key with alg RS512', () => bearer(token({}, { kid: 'rs512', alg: 'RS512' }))],
    ['under a key with alg PS256', () => bearer(token({}, { kid: 'ps', alg: 'PS256' }, ps))],
    ['under a key with alg ES256', () => bearer(token({}, { kid: 'es', alg: 'ES256' }, es))],
    ['with a kid of 256 characters', () => bearer(token({}, { kid: 'k'.repeat(256) }))],
    ['of 16_384 characters', () => bearer(tokenOf(16_384))],
    ['that contains keys, which are ignored', () => bearer(token({}, { jwk: jwkOf(foreign, {}), jku: 'x:', x5u: 'x:' }))],
    ['after a scheme in another letter case', () => requestWith(`bEARER ${token()}`)],
    ['after many blanks', () => requestWith(`Bearer \t  ${token()}`)],
  ])('%s', async (_, request) => {
    expect(await verifierFor().verify(request())).toEqual({
      subject: 'somebody',
      permissions: new Set(['read:users']),
      customerIds: new Set(),
    });
  });
});

describe('a token that is refused', () => {
  const refused = async (request: ReturnType<typeof requestWith>) => {
    const cause = expect.any(Error) as Error;
    await expect(verifierFor().verify(request)).rejects.toMatchObject({ kind: 'unauthorized', cause });
  };

  it.each<[string, () => string[]]>([
    ['no header', () => []],
    ['an empty header', () => ['']],
    ['only a scheme', () => ['Bearer']],
    ['a scheme and a blank', () => ['Bearer ']],
    ['only a token', () => [token()]],
    ['another scheme', () => [`Basic ${token()}`]],
    ['a scheme with the same beginning', () => [`Bearers ${token()}`]],
    ['text before the scheme', () => [`x Bearer ${token()}`]],
    ['no blank', () => [`Bearer${token()}`]],
    ['a line break instead of a blank', () => [`Bearer\n${token()}`]],
    ['a no-break space instead of a blank', () => [`Bearer\u00a0${token()}`]],
    ['two tokens', () => [`Bearer ${token()} ${token()}`]],
    ['a list', () => [`Bearer ${token()}, Bearer ${token()}`]],
    ['a quoted token', () => [`Bearer "${token()}"`]],
    ['two headers', () => [`Bearer ${token()}`, `Bearer ${token()}`]],
    ['a valid and an empty header', () => [`Bearer ${token()}`, '']],
    ['a token of 16_385 characters', () => [`Bearer ${tokenOf(16_385)}`]],
  ])('because of %s', async (_, values) => {
    await refused(requestWith(...values()));
  });

  it.each<[string, () => string]>([
    ['no token at all', () => 'abc'],
    ['a missing part', () => token().split('.').slice(0, 2).join('.')],
    ['an extra part', () => `${token()}.e30`],
    ['an empty header', () => token().replace(/^[^.]*/, '')],
    ['padding', () => `${token()}==`],
    ['a header that is not JSON', () => token().replace(/^[^.]*/, 'bm9wZQ')],
    ['a header that is a list', () => token().replace(/^[^.]*/, 'W10')],
    ['a payload that is not JSON', () => signToken(key, header(), 'nope')],
    ['a payload that is not JSON, of typ JWT', () => signToken(key, header({ typ: 'JWT' }), 'nope')],
    ['a payload that is null', () => signToken(key, header(), null)],
    ['a payload that is null, of typ JWT', () => signToken(key, header({ typ: 'JWT' }), null)],
    ['a payload that is a list', () => signToken(key, header(), [])],
    ['a payload changed after signing', () => token().replace(/\..*\./, (/\..*\./.exec(token({ sub: 'admin' })))?.[0] ?? '')],
    ['no signature', () => token().replace(/[^.]*$/, '')],
    ['a foreign key', () => token({}, {}, foreign)],
    ['a foreign key contained in the token', () => token({}, { jwk: jwkOf(foreign, { kid: 'plain' }) }, foreign)],
    ['alg none', () => token({}, { alg: 'none' })],
    ['alg none, with a signature', () => `${token({}, { alg: 'none' })}AAAA`],
    ['alg NONE', () => token({}, { alg: 'NONE' })],
    ['HS256 with the public key as its secret', () => token({}, { alg: 'HS256' }, String(pem))],
    ['no alg', () => token({}, { alg: undefined })],
    ['an alg that is not a string', () => token({}, { alg: ['RS256'] })],
    ['RS512 under a key without alg', () => token({}, { alg: 'RS512' })],
    ['PS256 under a key without alg', () => token({}, { alg: 'PS256' })],
    ['RS256 under a key with alg RS512', () => token({}, { kid: 'rs512' })],
    ['RS256 under a key with alg PS256', () => token({}, { kid: 'ps' }, ps)],
    ['ES256 under a key with alg RS256', () => token({}, { kid: 'es named rs', alg: 'ES256' }, es)],
    ['ES256 under a key without alg', () => token({}, { kid: 'es unnamed', alg: 'ES256' }, es)],
    ['RS256 under an elliptic key with alg RS256', () => token({}, { kid: 'es named rs' }, es)],
    ['a key for encryption', () => token({}, { kid: 'enc' })],
    ['no kid', () => token({}, { kid: undefined })],
    ['a kid that is not a string', () => token({}, { kid: 1 })],
    ['an unknown kid', () => token({}, { kid: 'unknown' })],
    ['a kid that is the name of a built-in property', () => token({}, { kid: '__proto__' })],
    ['a kid of 257 characters', () => token({}, { kid: 'k'.repeat(257) })],
    ['a crit header', () => token({}, { crit: ['b64'], b64: true })],
    ['an empty crit header', () => token({}, { crit: [] })],
    ['a crit header that is null', () => token({}, { crit: null })],
    ['typ logout+jwt', () => token({}, { typ: 'logout+jwt' })],
    ['typ dpop+jwt', () => token({}, { typ: 'dpop+jwt' })],
    ['an empty typ', () => token({}, { typ: '' })],
    ['a typ that is null', () => token({}, { typ: null })],
    ['no iss', () => token({ iss: undefined })],
    ['another iss', () => token({ iss: 'https://other.example' })],
    ['an iss with an extra slash', () => token({ iss: `${ISSUER}/` })],
    ['a list for iss', () => token({ iss: [ISSUER] })],
    ['no aud', () => token({ aud: undefined })],
    ['another aud', () => token({ aud: 'account' })],
    ['other auds', () => token({ aud: ['account', `${AUDIENCE}2`] })],
    ['no sub', () => token({ sub: undefined })],
    ['an empty sub', () => token({ sub: '' })],
    ['a sub that is not a string', () => token({ sub: 1 })],
    ['no exp', () => token({ exp: undefined })],
    ['an exp that is null', () => token({ exp: null })],
    ['an exp that is a string', () => token({ exp: String(now() + 600) })],
    ['an infinite exp', () => signToken(key, header(), JSON.stringify(payload()).replace(/"exp":\d+/, '"exp":1e999'))],
    ['an exp in the past', () => token({ exp: now() - 5 })],
    ['an nbf in the future', () => token({ nbf: now() + 6 })],
    ['an nbf that is a string', () => token({ nbf: '0' })],
    ['an iat in the future', () => token({ iat: now() + 6 })],
    ['an iat that is a string', () => token({ iat: '0' })],
    ["Keycloak's ID token", () => token({ typ: 'ID' })],
    ["Keycloak's refresh token", () => token({ typ: 'Refresh' })],
    ["Keycloak's offline token", () => token({ typ: 'Offline' })],
    ["Keycloak's logout token", () => token({ typ: 'Logout' })],
    ['a typ claim that is null', () => token({ typ: null })],
    ['an ID token with at_hash', () => token({ at_hash: 'x' })],
    ['an ID token with c_hash', () => token({ c_hash: 'x' })],
    ["Cognito's ID token", () => token({ token_use: 'id' })],
    ['a token whose token_use is refresh', () => token({ token_use: 'refresh' })],
    ['a logout token', () => token({ events: { 'http://schemas.openid.net/event/backchannel-logout': {} } })],
  ])('because of %s', async (_, text) => {
    await refused(bearer(text()));
  });

  it('without a fetch of keys from the URLs in it', async () => {
    const evil = await new TestIssuer().start();
    evil.keys = [jwkOf(foreign, { kid: 'plain' }), jwkOf(foreign, { kid: 'evil' })];
    await refused(bearer(token({}, { jku: evil.keySetUrl, x5u: evil.url }, foreign)));
    await refused(bearer(token({}, { kid: 'evil', jku: evil.keySetUrl, x5u: evil.url }, foreign)));
    await evil.stop();
    expect(evil.fetches).toBe(0);
  });

  it('when the header is random or almost a token', async () => {
    const verifier = verifierFor();
    const good = token();
    const names = fc.constantFrom('alg', 'kid', 'typ', 'crit', 'jwk', '__proto__');
    const json = fc.json().map((text) => Buffer.from(text).toString('base64url'));
    const value = fc.oneof(
      fc.string(),
      anyText(),
      fc.string().map((text) => `Bearer ${text}`),
      fc.tuple(json, json, fc.base64String()).map((parts) => `Bearer ${parts.join('.')}`),
      fc
        .tuple(fc.dictionary(names, fc.jsonValue()), fc.jsonValue())
        .map(([head, claims]) => `Bearer ${signToken(key, { ...header(), ...head }, claims)}`),
      fc
        .tuple(fc.integer({ min: 1, max: good.lastIndexOf('.') }), fc.string({ minLength: 1 }))
        .map(([at, text]) => `Bearer ${good.slice(0, at)}${text}${good.slice(at)}`),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(value, { minLength: 0, maxLength: 2 }), async (values) => {
        await expect(verifier.verify(requestWith(...values))).rejects.toMatchObject({ kind: 'unauthorized' });
      }),
      { numRuns: casesOf(1_000) },
    );
  });

  it('without any part of it in a message', async () => {
    const bad = [token({ exp: 1 }), token({}, { kid: 'unknown' }), token({}, {}, foreign), token({}, { alg: 'none' })];
    for (const text of [...bad, `x${token()}`]) {
      const error: unknown = await verifierFor().verify(bearer(text)).catch((reason: unknown) => reason);
      const said = inspect(error, { depth: Infinity });
      expect(said).toContain('ServiceError');
      expect(text.split('.').filter((part) => part !== '' && said.includes(part))).toEqual([]);
    }
  });
});

describe('a verifier', () => {
  it('keeps parallel requests separate, even while the keys are being fetched', async () => {
    const verifier = verifierFor();
    const subjects = Array.from({ length: 100 }, (_, index) => (index % 3 ? `user ${index}` : 'nobody'));
    const ends = subjects.map(async (sub) => {
      const request = bearer(token({ sub }, {}, sub === 'nobody' ? foreign : key));
      return verifier.verify(request).then(({ subject }) => subject, () => 'nobody');
    });
    expect(await Promise.all(ends)).toEqual(subjects);
  });

  it.each<[string, Members, boolean]>([
    ['nothing else is wrong', {}, true],
    ['it has another issuer', { iss: 'https://elsewhere.example' }, false],
    ['it has another audience', { aud: ['account'] }, false],
    ['it has no audience', { aud: undefined }, false],
    ['it is expired', { exp: now() - 60 }, false],
    ['it never expires', { exp: undefined }, false],
  ])('fetches the keys for a token with an unknown kid only if nothing else is wrong: %s', async (_, claims, isFetched) => {
    const verifier = verifierFor({ cooldownMs: 0 });
    await verifier.verify(bearer(token()));
    const before = issuer.fetches;
    await expect(verifier.verify(bearer(token(claims, { kid: 'retired' })))).rejects.toMatchObject({ kind: 'unauthorized' });
    expect(issuer.fetches - before).toBe(isFetched ? 1 : 0);
  });

  it('reports that the provider is unavailable when there are no keys, and when to retry', async () => {
    const dead = await new TestIssuer().start();
    await dead.stop();
    await expect(verifierFor({ keySet: { url: dead.keySetUrl } }).verify(bearer(token()))).rejects.toMatchObject({
      kind: 'provider-unavailable',
      retryAfterSeconds: 2,
      cause: expect.any(Error) as Error,
    });
  });

  it('needs no keys to refuse a token that is not an access token', async () => {
    const before = issuer.fetches;
    const heads = [{ kid: undefined }, { crit: [] }, { typ: 'logout+jwt' }];
    for (const text of ['abc', ...heads.map((head) => token({}, head))]) {
      await expect(verifierFor().verify(bearer(text))).rejects.toMatchObject({ kind: 'unauthorized' });
    }
    expect(issuer.fetches).toBe(before);
  });

  it('asks for the issuer until it is known, and then keeps it', async () => {
    const ask = vi.fn<() => string>().mockReturnValue(ISSUER);
    ask.mockImplementationOnce(() => { throw new Error('The service does not listen yet.'); });
    const verifier = verifierFor({ issuer: ask });
    await expect(verifier.verify(bearer(token()))).rejects.toMatchObject({ kind: 'unauthorized' });
    for (let count = 0; count < 3; count++) await expect(verifier.verify(bearer(token()))).resolves.toMatchObject({ subject: 'somebody' });
    expect(ask).toHaveBeenCalledTimes(2);
  });

  it('refuses every token when the audience is empty', async () => {
    await expect(verifierFor({ audience: '' }).verify(bearer(token()))).rejects.toMatchObject({ kind: 'unauthorized' });
  });

  it('accepts a tolerance of 0 to 10 seconds', async () => {
    for (const clockToleranceSeconds of [-1, 11, NaN]) {
      expect(() => verifierFor({ clockToleranceSeconds })).toThrow(RangeError);
    }
    const none = verifierFor({ clockToleranceSeconds: 0 });
    await expect(none.verify(bearer(token({ exp: now() })))).rejects.toMatchObject({ kind: 'unauthorized' });
    await expect(none.verify(bearer(token({ iat: now() + 1 })))).rejects.toMatchObject({ kind: 'unauthorized' });
    const ten = verifierFor({ clockToleranceSeconds: 10 });
    await expect(ten.verify(bearer(token({ exp: now() - 9, iat: now() + 10, nbf: now() + 10 })))).resolves.toBeDefined();
  });
});
