import { afterEach, describe, expect, it, vi } from 'vitest';
import { ProviderUnavailable } from '../../../domain/errors.js';
import { type IssuedToken, ServiceToken } from './service-token.js';

const { signal } = new AbortController();

/** Returns a function that issues the tokens `1`, `2`, … with the given lifetime, in seconds. */
function issuer(expiresInSeconds = 300) {
  let count = 0;
  return (): Promise<IssuedToken> => Promise.resolve({ value: String(++count), expiresInSeconds });
}

describe('the token of a service', () => {
  afterEach(() => vi.useRealTimers());

  it('is requested once for any number of callers', async () => {
    const token = new ServiceToken(issuer());
    expect(new Set(await Promise.all(Array.from({ length: 50 }, () => token.get(signal))))).toEqual(new Set(['1']));
    expect(await token.get(signal)).toBe('1');
  });

  it('is requested again after it was refused, once for all callers that saw the refusal', async () => {
    const token = new ServiceToken(issuer());
    const refused = await token.get(signal);
    const after = await Promise.all(
      Array.from({ length: 10 }, () => {
        token.discard(refused, 'refused');
        return token.get(signal);
      }),
    );
    expect(new Set(after)).toEqual(new Set(['2']));
    token.discard(refused, 'refused');
    expect(await token.get(signal)).toBe('2');
  });

  it('is requested once every ten seconds while each token is refused', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const token = new ServiceToken(issuer());
    const given: string[] = [];
    for (const passedMs of [0, 0, 1_000, 8_999, 1, 9_999, 1]) {
      vi.advanceTimersByTime(passedMs);
      given.push(await token.get(signal));
      token.discard(given.at(-1) ?? '', 'refused');
    }
    expect(given).toEqual(['1', '2', '2', '2', '2', '3', '3']);
  });

  it('is requested again at once whenever it was accepted before it is refused', async () => {
    const token = new ServiceToken(issuer());
    for (const expected of ['1', '2', '3']) {
      const current = await token.get(signal);
      expect(current).toBe(expected);
      token.accepted(current);
      expect(token.discard(current, 'refused')).toBe(true);
    }
    // That the earlier token `3` was accepted doesn't mean that the current token was.
    const current = await token.get(signal);
    token.accepted('3');
    expect(token.discard(current, 'refused')).toBe(false);
  });

  it('is requested again once when it permits too little, because the next one may permit no more', async () => {
    const token = new ServiceToken(issuer());
    const outdated = await token.get(signal);
    expect(token.discard(outdated, 'outdated')).toBe(true);
    expect(await token.get(signal)).toBe('2');
    // True, because a caller whose call with the old token failed can try again with the current one.
    expect(token.discard(outdated, 'outdated')).toBe(true);
    expect(token.discard('2', 'outdated')).toBe(false);
    expect(await token.get(signal)).toBe('2');
  });

  it('is replaced for all callers when a new one is requested', async () => {
    const token = new ServiceToken(issuer());
    expect([await token.getNew(signal), await token.getNew(signal), await token.get(signal)]).toEqual(['1', '2', '2']);
  });

  it('stays in use until a requested new one arrives, and if it does not arrive', async () => {
    let refuse: (reason: Error) => void = () => undefined;
    const outcomes = [Promise.resolve({ value: '1', expiresInSeconds: 300 }), new Promise<IssuedToken>((_, reject) => (refuse = reject))];
    const token = new ServiceToken(() => outcomes.shift() ?? Promise.reject(new Error('too often')));
    expect(await token.get(signal)).toBe('1');
    const wanted = token.getNew(signal);
    expect(await token.get(signal)).toBe('1');
    refuse(new ProviderUnavailable('down'));
    await expect(wanted).rejects.toThrow('down');
    expect(await token.get(signal)).toBe('1');
  });

  it('is not used after its lifetime', async () => {
    const token = new ServiceToken(issuer(0));
    expect([await token.get(signal), await token.get(signal)]).toEqual(['1', '2']);
  });

  it('is requested again after a failure, which is reported to all waiting callers', async () => {
    const outcomes = [Promise.reject(new ProviderUnavailable('down')), Promise.resolve({ value: '1', expiresInSeconds: 300 })];
    const token = new ServiceToken(() => outcomes.shift() ?? Promise.reject(new Error('too often')));
    for (const { status } of await Promise.allSettled([token.get(signal), token.get(signal)])) expect(status).toBe('rejected');
    expect(await token.get(signal)).toBe('1');
  });

  it('releases a caller that gives up, and still arrives for the others', async () => {
    let issue: (token: IssuedToken) => void = () => undefined;
    const token = new ServiceToken(() => new Promise((resolve) => (issue = resolve)));
    const leaving = new AbortController();
    const [given, left] = [token.get(signal), token.get(leaving.signal)];
    leaving.abort();
    await expect(left).rejects.toThrow(ProviderUnavailable);
    issue({ value: '1', expiresInSeconds: 300 });
    expect(await given).toBe('1');
  });
});
