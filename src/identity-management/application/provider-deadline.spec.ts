import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { InMemoryIdentityProvider } from '../../testing/in-memory.identity-provider.js';
import { ProviderError, ProviderUnavailable, RoleAlreadyExists } from '../domain/errors.js';
import type { IdentityProvider, ProviderCallOptions } from './ports/identity-provider.port.js';
import { ProviderDeadline } from './provider-deadline.js';

/** The provider for the constructor. Never called, because the calls that the tests make use providers of their own. */
const UNUSED = new InMemoryIdentityProvider();
const PATIENT = new ProviderDeadline(UNUSED, 10_000);
const SHORT = new ProviderDeadline(UNUSED, 20);

const asIs = <Item>(item: Item): Item => item;
const unhandled: unknown[] = [];
const noteUnhandled = (reason: unknown): void => void unhandled.push(reason);
const turn = (): Promise<void> => new Promise(setImmediate);

beforeEach(() => process.on('unhandledRejection', noteUnhandled));
afterEach(() => {
  process.off('unhandledRejection', noteUnhandled);
  vi.useRealTimers();
});

async function filled(roles: number, pageSize: number): Promise<InMemoryIdentityProvider> {
  const provider = new InMemoryIdentityProvider(pageSize);
  for (let index = 0; index < roles; index++) {
    await provider.createRole({ name: `role ${index}`, permissions: ['a:b'] }, { signal: new AbortController().signal });
  }
  return provider;
}

async function all<Item>(pages: AsyncIterable<readonly Item[]>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const page of pages) items.push(...page);
  return items;
}

describe('a call within a deadline', () => {
  it('passes on the answers and the refusals of the provider', async () => {
    const provider = new InMemoryIdentityProvider();
    const create = () => PATIENT.call((_, options) => provider.createRole({ name: 'a', permissions: ['a:b'] }, options));
    await expect(create()).resolves.toMatch(/^role_/);
    await expect(create()).rejects.toThrow(RoleAlreadyExists);
    expect(provider.lastSignal?.aborted).toBe(false);
  });

  it('turns any other error of the provider into ProviderError with its cause', async () => {
    const broken = new TypeError('broken');
    const provider = new InMemoryIdentityProvider();
    provider.failWith(broken);
    const failed = PATIENT.call((_, options) => provider.checkHealth(options));
    await expect(failed).rejects.toThrow(ProviderError);
    await expect(failed).rejects.toHaveProperty('cause', broken);
    const thrown = PATIENT.call(() => {
      throw broken;
    });
    await expect(thrown).rejects.toThrow(ProviderError);
    await expect(thrown).rejects.toHaveProperty('cause', broken);
  });

  it('gives up on a provider that hangs, and aborts the signal', async () => {
    const provider = new InMemoryIdentityProvider();
    provider.hang();
    const failed = SHORT.call((_, options) => provider.checkHealth(options));
    expect(provider.lastSignal?.aborted).toBe(false);
    await expect(failed).rejects.toThrow(ProviderUnavailable);
    await expect(failed).rejects.toHaveProperty('retryAfterSeconds', 10);
    expect(provider.lastSignal?.aborted).toBe(true);
  });

  it("prefers its own error to the provider's error about the abort", async () => {
    const failed = SHORT.call(
      (_, { signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reject(new TypeError('aborted'));
          });
        }),
    );
    await expect(failed).rejects.toThrow(ProviderUnavailable);
  });

  it.each(['rejects', 'resolves'])('ignores an abandoned call that %s later', async (outcome) => {
    const provider = new InMemoryIdentityProvider();
    provider.hang();
    await expect(
      SHORT.call((_, options) => provider.createUser({ email: 'a@example.com', name: 'a', roleIds: [] }, options)),
    ).rejects.toThrow(ProviderUnavailable);
    if (outcome === 'rejects') provider.failWith(new Error('late'));
    else provider.recover();
    await turn();
    await turn();
    expect(unhandled).toEqual([]);
  });
});

describe('a list within a deadline', () => {
  it('yields the pages unchanged, and leaves nothing open', async () => {
    const provider = await filled(5, 2);
    const lengths: number[] = [];
    for await (const page of PATIENT.pages((_, options) => provider.listRoles(options), asIs)) lengths.push(page.length);
    expect(lengths).toEqual([2, 2, 1]);
    expect(provider.openLists).toBe(0);
  });

  it("ends the provider's list when it is returned, and aborts the signal", async () => {
    const provider = await filled(5, 2);
    const pages = PATIENT.pages((_, options) => provider.listRoles(options), asIs);
    await pages.next();
    expect(provider.openLists).toBe(1);
    expect(provider.lastSignal?.aborted).toBe(false);
    await pages.return();
    expect(provider.openLists).toBe(0);
    expect(provider.lastSignal?.aborted).toBe(true);
    expect(await pages.next()).toEqual({ done: true, value: undefined });
  });

  it("does not return the provider's list when it has been read to its end", async () => {
    const onReturn = vi.fn();
    const next = vi.fn().mockResolvedValueOnce({ done: false, value: [1] }).mockResolvedValueOnce({ done: true, value: undefined });
    const list = () => ({ [Symbol.asyncIterator]: () => ({ next, return: onReturn }) }) as unknown as AsyncIterable<readonly number[]>;
    expect(await all(PATIENT.pages(list, asIs))).toEqual([1]);
    expect(onReturn).not.toHaveBeenCalled();
  });

  it('does not call the provider before the first page is requested', async () => {
    const provider = await filled(1, 2);
    provider.lastSignal = undefined;
    const pages = PATIENT.pages((_, options) => provider.listRoles(options), asIs);
    await turn();
    expect(provider.lastSignal).toBeUndefined();
    await pages.return();
  });

  it('gives up on a provider that hangs at the first page', async () => {
    const provider = await filled(5, 2);
    provider.hang();
    await expect(all(SHORT.pages((_, options) => provider.listRoles(options), asIs))).rejects.toThrow(ProviderUnavailable);
    expect(provider.lastSignal?.aborted).toBe(true);
  });

  it('gives up on a provider that hangs after one time limit, although ending its list hangs too', async () => {
    vi.useFakeTimers();
    const provider = await filled(1, 2);
    provider.hang();
    const gaveUp = vi.fn();
    const reading = all(SHORT.pages((_, options) => provider.listRoles(options), asIs)).catch(gaveUp);
    await vi.advanceTimersByTimeAsync(20);
    expect(gaveUp).toHaveBeenCalledWith(expect.any(ProviderUnavailable));
    await reading;
  });

  it('gives up on a provider that hangs at a later page, and ends its list once it responds', async () => {
    const provider = await filled(5, 2);
    const pages = SHORT.pages((_, options) => provider.listRoles(options), asIs);
    expect((await pages.next()).value).toHaveLength(2);
    provider.hang();
    await expect(pages.next()).rejects.toThrow(ProviderUnavailable);
    provider.recover();
    await turn();
    await turn();
    expect(provider.openLists).toBe(0);
    expect(unhandled).toEqual([]);
  });

  it('gives each page the full time, and does not count the time of the reader', async () => {
    vi.useFakeTimers();
    async function* slow(): AsyncGenerator<readonly number[]> {
      for (let page = 0; page < 4; page++) {
        await new Promise((resolve) => setTimeout(resolve, 15));
        yield [page];
      }
    }
    const pages = SHORT.pages(slow, asIs);
    for (let page = 0; page < 4; page++) {
      const next = pages.next();
      await vi.advanceTimersByTimeAsync(15);
      expect((await next).value).toEqual([page]);
      await vi.advanceTimersByTimeAsync(1000);
    }
    expect((await pages.next()).done).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('turns any other error into ProviderError, at any page', async () => {
    const provider = await filled(5, 2);
    const pages = PATIENT.pages((_, options) => provider.listRoles(options), asIs);
    await pages.next();
    provider.failWith(new TypeError('broken'));
    await expect(pages.next()).rejects.toThrow(ProviderError);
    const list = (): never => {
      throw new TypeError('broken');
    };
    await expect(PATIENT.pages(list, asIs).next()).rejects.toThrow(ProviderError);
  });

  it.each(['throws', 'hangs'])('ends even if the provider %s when its list is returned', async (fault) => {
    const returned: string[] = [];
    const list = (_: IdentityProvider, { signal }: ProviderCallOptions): AsyncIterable<readonly number[]> => ({
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.resolve({ done: false, value: [signal.aborted ? 1 : 0] }),
        return: () => {
          returned.push(fault);
          return fault === 'throws' ? Promise.reject(new Error('untidy')) : new Promise(() => undefined);
        },
      }),
    });
    const pages = SHORT.pages(list, asIs);
    await pages.next();
    await expect(pages.return()).resolves.toEqual({ done: true, value: undefined });
    expect(returned).toEqual([fault]);
    await turn();
    expect(unhandled).toEqual([]);
  });
});
