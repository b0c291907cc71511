import { describe, expect, it } from 'vitest';
import { identityProviderContract } from './identity-provider.contract.js';
import { InMemoryIdentityProvider } from './in-memory.identity-provider.js';

identityProviderContract('InMemoryIdentityProvider', () => {
  const provider = new InMemoryIdentityProvider(10);
  return Promise.resolve({
    provider,
    unknownUserId: 'memory|4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10',
    unknownRoleId: 'role_4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10',
    moreThanOnePage: 25,
    reopen: () => Promise.resolve(provider),
    permissionsOf: (userId) => Promise.resolve(provider.permissionsOf(userId)),
    tearDown: () => undefined,
  });
});

describe('InMemoryIdentityProvider', () => {
  const options = { signal: new AbortController().signal };

  it('fails with the given error until it recovers', async () => {
    const provider = new InMemoryIdentityProvider();
    provider.failWith(new TypeError('broken'));
    await expect(provider.checkHealth(options)).rejects.toThrow('broken');
    await expect(provider.listUsers(options).next()).rejects.toThrow('broken');
    provider.recover();
    await expect(provider.checkHealth(options)).resolves.toBeUndefined();
  });

  it('hangs on request, and then continues or fails', async () => {
    const provider = new InMemoryIdentityProvider();
    let settled = 0;
    const call = () => provider.checkHealth(options).finally(() => settled++);
    provider.hang();
    const first = call();
    await new Promise(setImmediate);
    expect(settled).toBe(0);
    provider.recover();
    await expect(first).resolves.toBeUndefined();
    provider.hang();
    const second = call();
    provider.failWith(new Error('late'));
    await expect(second).rejects.toThrow('late');
  });

  it('releases also the calls that have waited since before it was told to hang again', async () => {
    const provider = new InMemoryIdentityProvider();
    provider.hang();
    const call = provider.checkHealth(options);
    provider.hang();
    provider.recover();
    await expect(call).resolves.toBeUndefined();
  });

  it('counts the open lists', async () => {
    const provider = new InMemoryIdentityProvider();
    await provider.createRole({ name: 'a', permissions: ['a:b'] }, options);
    const list = provider.listRoles(options);
    await list.next();
    expect(provider.openLists).toBe(1);
    await list.return();
    expect(provider.openLists).toBe(0);
  });
});
