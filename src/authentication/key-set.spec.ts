import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { sharedRsaKey } from '../../test/support/signing-keys.js';
import { MIB } from '../common/sizes.js';
import { KeySet, type KeySetTimes } from './key-set.js';
import { ecKey, jwkOf, rsaKey, TestIssuer } from '../testing/test-issuer.js';

const first = sharedRsaKey(0);
const second = sharedRsaKey(1);
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const unauthorized = { kind: 'unauthorized' };
const unavailable = { kind: 'provider-unavailable' };

let issuer: TestIssuer;
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  issuer = await new TestIssuer().start();
  issuer.keys = [jwkOf(first, { kid: 'first' })];
});
afterEach(async () => {
  vi.useRealTimers();
  await issuer.stop();
});

const keySet = (times?: KeySetTimes) => new KeySet({ url: issuer.keySetUrl }, times);
const later = (milliseconds: number) => vi.advanceTimersByTime(milliseconds);
/** The distinct results of `count` simultaneous lookups of keys: `found`, or the kind of the lookup's ServiceError. */
async function many(count: number, find: (index: number) => Promise<unknown>): Promise<Set<string>> {
  const ends = await Promise.allSettled(Array.from({ length: count }, (_, index) => find(index)));
  return new Set(ends.map((end) => (end.status === 'fulfilled' ? 'found' : (end.reason as { kind: string }).kind)));
}

describe('an available key set', () => {
  it('is fetched once for all simultaneous callers, and cached', async () => {
    const keys = keySet();
    const found = await Promise.all(Array.from({ length: 100 }, () => keys.find('first')));
    later(10 * MINUTE - SECOND);
    const { key, algorithm } = await keys.find('first');
    expect(found.every((each) => each.key === key)).toBe(true);
    expect(key.export({ format: 'jwk' })).toEqual(jwkOf(first, {}));
    expect(algorithm).toBe('RS256');
    expect(issuer.fetches).toBe(1);
  });

  it('is fetched again after ten minutes, and a withdrawn key is no longer accepted', async () => {
    const keys = keySet();
    await keys.find('first');
    issuer.keys = [jwkOf(second, { kid: 'second' })];
    later(10 * MINUTE);
    await expect(keys.find('first')).rejects.toMatchObject(unauthorized);
    await expect(keys.find('second')).resolves.toBeDefined();
    expect(issuer.fetches).toBe(2);
  });

  it('is also fetched again if the machine was suspended for ten minutes, in which only the system clock went on', async () => {
    const keys = keySet();
    await keys.find('first');
    vi.setSystemTime(Date.now() + 10 * MINUTE);
    await keys.find('first');
    expect(issuer.fetches).toBe(2);
  });

  it('provides a new key to callers that ask during the cool-down: they wait for its end and share one fetch', async () => {
    const keys = keySet({ cooldownMs: 300 });
    await keys.find('first');
    issuer.keys = [jwkOf(second, { kid: 'second' })];
    expect(await many(100, () => keys.find('second'))).toEqual(new Set(['found']));
    await expect(keys.find('first')).rejects.toMatchObject(unauthorized);
    expect(issuer.fetches).toBeLessThanOrEqual(3);
  });

  it('provides a new key even while others ask for unknown keys', async () => {
    const keys = keySet({ cooldownMs: 300 });
    await keys.find('first');
    await expect(keys.find('junk')).rejects.toMatchObject(unauthorized);
    issuer.keys = [jwkOf(second, { kid: 'second' })];
    const junk = many(200, (index) => keys.find(`junk ${index}`));
    expect(await many(100, () => keys.find('second'))).toEqual(new Set(['found']));
    expect(await junk).toEqual(new Set(['unauthorized']));
    expect(issuer.fetches).toBe(3);
  });

  it('is fetched once more for any number of simultaneous unknown kids, and not again for a kid that it did not contain', async () => {
    const keys = keySet({ cooldownMs: 20 * SECOND });
    await keys.find('first');
    later(20 * SECOND);
    expect(await many(200, (index) => keys.find(`junk ${index}`))).toEqual(new Set(['unauthorized']));
    expect(issuer.fetches).toBe(2);
    for (let index = 0; index < 200; index++) await expect(keys.find(`junk ${index}`)).rejects.toMatchObject(unauthorized);
    expect(issuer.fetches).toBe(2);
    later(20 * SECOND);
    await expect(keys.find('junk 0')).rejects.toMatchObject(unauthorized);
    expect(issuer.fetches).toBe(3);
  });

  it('lets at most 1,000 callers wait for the next fetch, and asks the others to retry', async () => {
    const keys = keySet({ cooldownMs: 300 });
    await keys.find('first');
    const ends = await Promise.allSettled(Array.from({ length: 1_200 }, (_, index) => keys.find(`junk ${index}`)));
    const kinds = ends.map((end) => (end.status === 'rejected' ? (end.reason as { kind: string; retryAfterSeconds?: number }) : undefined));
    expect(kinds.filter((error) => error?.kind === 'unauthorized')).toHaveLength(1_000);
    expect(kinds.filter((error) => error?.kind === 'provider-unavailable' && error.retryAfterSeconds === 1)).toHaveLength(200);
    await expect(keys.find('first')).resolves.toBeDefined();
    expect(issuer.fetches).toBe(2);
  });

  it('may be up to 1 MiB long', async () => {
    const [before = '', after = ''] = JSON.stringify({ keys: issuer.keys, more: '|' }).split('|');
    issuer.answer = (_, response) => response.end(before + 'x'.repeat(MIB - before.length - after.length) + after);
    await expect(keySet().find('first')).resolves.toBeDefined();
  });

  it('can come from a function, which is called for each unknown kid', async () => {
    const load = vi.fn(() => Promise.resolve({ keys: [jwkOf(first, { kid: 'first' })] }));
    const keys = new KeySet({ load });
    expect(await many(50, () => keys.find('first'))).toEqual(new Set(['found']));
    expect(load).toHaveBeenCalledOnce();
    await expect(keys.find('junk')).rejects.toMatchObject(unauthorized);
    load.mockResolvedValue({ keys: [jwkOf(second, { kid: 'second' })] });
    await expect(keys.find('second')).resolves.toBeDefined();
    expect(load).toHaveBeenCalledTimes(3);

    later(10 * MINUTE);
    const cause = new Error('disk');
    load.mockImplementation(() => { throw cause; });
    await expect(keys.find('junk')).rejects.toMatchObject({ ...unavailable, cause });
    await expect(keys.find('second')).resolves.toBeDefined();
  });
});

describe("an unavailable key set", () => {
  const answers: Readonly<Record<string, TestIssuer['answer']>> = {
    'an error': (_, response) => response.writeHead(500).end(),
    'an error around a key set': (_, response) => response.writeHead(500).end(JSON.stringify({ keys: issuer.keys })),
    HTML: (_, response) => response.end('<html>Sign in</html>'),
    'no key set': (_, response) => response.end('{"keys":{}}'),
    'a list without keys': (_, response) => response.end('{"keys":[null]}'),
    'no body': (_, response) => response.writeHead(204).end(),
    'more than 1 MiB': (_, response) => response.end(JSON.stringify({ keys: issuer.keys, more: 'x'.repeat(MIB) })),
    'a broken connection': (_, response) => { response.write('{'); response.destroy(); },
    'silence': () => undefined,
    'silence after the first bytes': (_, response) => response.write('{'),
  };

  it.each(Object.entries(answers))("is the provider's fault when the answer is %s", async (name, answer) => {
    issuer.answer = answer;
    // On a busy machine, other answers may take longer than the silence is waited for.
    await expect(keySet({ timeoutMs: name.startsWith('silence') ? 500 : 10_000 }).find('first')).rejects.toMatchObject({
      ...unavailable,
      cause: expect.any(Error) as Error,
      retryAfterSeconds: 2,
    });
    expect(issuer.fetches).toBe(1);
  });

  it('is not fetched from the target of a redirect', async () => {
    const elsewhere = await new TestIssuer().start();
    elsewhere.keys = issuer.keys;
    issuer.answer = (_, response) => response.writeHead(302, { Location: elsewhere.keySetUrl }).end();
    await expect(keySet().find('first')).rejects.toMatchObject(unavailable);
    await elsewhere.stop();
    expect(elsewhere.fetches).toBe(0);
  });

  it('is reported when its function never ends', async () => {
    const keys = new KeySet({ load: () => new Promise(() => undefined) }, { timeoutMs: 50 });
    await expect(keys.find('first')).rejects.toMatchObject(unavailable);
  });

  it('is requested once for 100 calls, simultaneous or in sequence, until the cool-down is over, and then works again', async () => {
    issuer.answer = answers['an error'];
    const keys = keySet();
    expect(await many(50, () => keys.find('first'))).toEqual(new Set(['provider-unavailable']));
    for (let index = 0; index < 50; index++) await expect(keys.find(`junk ${index}`)).rejects.toMatchObject(unavailable);
    expect(issuer.fetches).toBe(1);

    issuer.answer = undefined;
    later(SECOND);
    await expect(keys.find('first')).rejects.toMatchObject({ retryAfterSeconds: 1 });
    expect(issuer.fetches).toBe(1);
    later(SECOND);
    await expect(keys.find('first')).resolves.toBeDefined();
    expect(issuer.fetches).toBe(2);
    await expect(keys.find('junk')).rejects.toMatchObject(unauthorized);
  });

  it('is available again when its server listens again', async () => {
    const keys = keySet();
    await issuer.stop();
    await expect(keys.find('first')).rejects.toMatchObject(unavailable);
    await issuer.start();
    later(5 * SECOND);
    await expect(keys.find('first')).resolves.toBeDefined();
  });

  it('delays no call for a known key while the issuer does not respond', async () => {
    const keys = keySet({ timeoutMs: 60 * SECOND });
    await keys.find('first');
    issuer.answer = answers.silence;
    later(10 * MINUTE);
    await expect(keys.find('first')).resolves.toBeDefined();
    expect(issuer.fetches).toBe(2);
  });

  it('leaves the known keys in use for one hour, but no longer', async () => {
    const keys = keySet();
    await keys.find('first');
    await issuer.stop();
    later(30 * SECOND);
    await expect(keys.find('junk')).rejects.toMatchObject(unavailable);
    await expect(keys.find('first')).resolves.toBeDefined();
    later(59 * MINUTE);
    await expect(keys.find('first')).resolves.toBeDefined();
    later(30 * SECOND);
    await expect(keys.find('first')).rejects.toMatchObject(unavailable);
    await issuer.start();
    later(5 * SECOND);
    await expect(keys.find('first')).resolves.toBeDefined();
  });
});

describe('a system clock that is set back by an hour', () => {
  const setBack = () => { vi.setSystemTime(Date.now() - 60 * MINUTE); };

  it('does not prolong the use of a withdrawn key', async () => {
    const keys = keySet();
    await keys.find('first');
    issuer.keys = [jwkOf(second, { kid: 'second' })];
    setBack();
    later(10 * MINUTE);
    await expect(keys.find('first')).rejects.toMatchObject(unauthorized);
    await expect(keys.find('second')).resolves.toBeDefined();
  });

  it('does not prolong the cool-down after a failed fetch', async () => {
    issuer.answer = (_, response) => response.writeHead(500).end();
    const keys = keySet();
    await expect(keys.find('first')).rejects.toMatchObject(unavailable);
    issuer.answer = undefined;
    setBack();
    await expect(keys.find('first')).rejects.toMatchObject({ ...unavailable, retryAfterSeconds: 2 });
    later(2 * SECOND);
    await expect(keys.find('first')).resolves.toBeDefined();
  });
});

describe('a key', () => {
  const usable = { kid: 'k' };
  const rsa = (members: object) => ({ ...jwkOf(first, usable), ...members });

  it.each([
    ['for encryption', rsa({ use: 'enc' })],
    ['with operations other than verifying', rsa({ key_ops: ['encrypt'] })],
    ['that is symmetric', { kty: 'oct', k: 'c2VjcmV0', ...usable }],
    ['that is symmetric and for HMAC', { kty: 'oct', k: 'c2VjcmV0', alg: 'HS256', ...usable }],
    ['with the algorithm HS256', rsa({ alg: 'HS256' })],
    ['with the algorithm none', rsa({ alg: 'none' })],
    ['with an algorithm for encryption', rsa({ alg: 'RSA-OAEP' })],
    ['of RSA with 1024 bits', jwkOf(rsaKey(1024), usable)],
    ['that Node cannot read', { kty: 'RSA', n: 1, ...usable }],
    ['of an unknown type', { kty: 'new', ...usable }],
    ['whose kid is a number', rsa({ kid: 7 })],
  ])('%s is ignored, and does not hide other keys', async (_, jwk) => {
    issuer.keys = [jwk as TestIssuer['keys'][number], jwkOf(second, { kid: 'other', use: 'sig', key_ops: ['verify'] })];
    const keys = keySet();
    await expect(keys.find('k')).rejects.toMatchObject(unauthorized);
    await expect(keys.find('other')).resolves.toMatchObject({ algorithm: 'RS256' });
  });

  it.each(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512'])('has the algorithm given in the key set: %s', async (algorithm) => {
    issuer.keys = [jwkOf(algorithm.startsWith('ES') ? ecKey() : first, { kid: 'k', alg: algorithm })];
    await expect(keySet().find('k')).resolves.toMatchObject({ algorithm });
  });

  it('for signatures is found even if one for encryption has the same kid', async () => {
    issuer.keys = [rsa({ use: 'enc', alg: 'RSA-OAEP' }), jwkOf(second, usable)];
    expect((await keySet().find('k')).key.export({ format: 'jwk' })).toEqual(jwkOf(second, {}));
  });
});

it('a key set is fetched only from http and https URLs', () => {
  expect(() => new KeySet({ url: 'file:///keys.json' })).toThrow(TypeError);
  expect(() => new KeySet({ url: 'keys.json' })).toThrow(TypeError);
});

describe('the health of a key set', () => {
  it('is good as soon as the keys were fetched, which takes no further fetch for an hour', async () => {
    const keys = keySet();
    await Promise.all([keys.checkHealth(), keys.checkHealth()]);
    await expect(keys.find('first')).resolves.toBeDefined();
    await issuer.stop();
    later(59 * MINUTE);
    await keys.checkHealth();
    expect(issuer.fetches).toBe(1);
    later(MINUTE);
    await expect(keys.checkHealth()).rejects.toMatchObject(unavailable);
  });

  it('is bad while there are no keys, with at most one fetch in a cool-down', async () => {
    issuer.answer = (_, response) => response.writeHead(500).end();
    const keys = keySet();
    for (let time = 0; time < 3; time++) await expect(keys.checkHealth()).rejects.toMatchObject(unavailable);
    expect(issuer.fetches).toBe(1);
    issuer.answer = undefined;
    later(2 * SECOND);
    await keys.checkHealth();
    expect(issuer.fetches).toBe(2);
  });

  it('is good without a fetch for each check if the issuer has no keys', async () => {
    issuer.keys = [];
    const keys = keySet();
    for (let time = 0; time < 3; time++) await keys.checkHealth();
    expect(issuer.fetches).toBe(1);
  });
});
