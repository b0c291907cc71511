import { describe, expect, it } from 'vitest';
import type { Observer } from '../../../../common/observer.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import { ObservedBucket } from './observed-bucket.js';

/** An observer, with the calls that it has seen: `create begins`, `create ok` or `create failed`. */
function recorder(): { seen: string[]; observe: Observer } {
  const seen: string[] = [];
  return {
    seen,
    observe: async (operation, call) => {
      seen.push(`${operation} begins`);
      try {
        const result = await call();
        seen.push(`${operation} ok`);
        return result;
      } catch (error) {
        seen.push(`${operation} failed`);
        throw error;
      }
    },
  };
}

describe('ObservedBucket', () => {
  it('lets its observer see each call from beginning to end, and its failure', async () => {
    const inner = new InMemoryBucket();
    const { seen, observe } = recorder();
    const bucket = new ObservedBucket(inner, observe);
    await bucket.create('a', Buffer.from('a'));
    await bucket.read('a');
    const fault = new Error('no answer');
    inner.before = () => { throw fault; };
    await expect(bucket.replace('a', Buffer.from('b'))).rejects.toBe(fault);
    expect(seen).toEqual(['create begins', 'create ok', 'read begins', 'read ok', 'replace begins', 'replace failed']);
  });

  it.each<[string, (bucket: ObservedBucket) => Promise<unknown>, string[]]>([
    ['that is read to its end', async (bucket) => { for await (const each of bucket.list('')) expect(each.size).toBe(1); }, ['list begins', 'list ok']],
    ['that is left early', async (bucket) => { for await (const each of bucket.list('')) { expect(each.key).toBe('a'); break; } }, ['list begins', 'list ok']],
    ['that begins after a key', async (bucket) => { for await (const each of bucket.listAfter('', 'a') ?? []) expect(each.key).not.toBe('a'); }, ['list begins', 'list ok']],
    ['of directories', async (bucket) => { for await (const each of bucket.listDirectories('')) expect(each).toBe('d/'); }, ['listDirectories begins', 'listDirectories ok']],
  ])('shows a listing as one call: one %s', async (_name, list, calls) => {
    const inner = new InMemoryBucket();
    for (const key of ['a', 'b', 'd/c']) await inner.create(key, Buffer.from('1'));
    const { seen, observe } = recorder();
    await list(new ObservedBucket(inner, observe));
    expect(seen).toEqual(calls);
  });

  it('shows the failure of a listing', async () => {
    const inner = new InMemoryBucket();
    const fault = new Error('no answer');
    inner.before = () => { throw fault; };
    const { seen, observe } = recorder();
    await expect(new ObservedBucket(inner, observe).list('')[Symbol.asyncIterator]().next()).rejects.toBe(fault);
    expect(seen).toEqual(['list begins', 'list failed']);
  });
});
