import { describe, expect, it } from 'vitest';
import { bucketContract, type BucketContractSubject } from './bucket.contract.js';
import { InMemoryBucket } from './in-memory.bucket.js';

bucketContract('in memory', () => {
  const bucket = new InMemoryBucket();
  return Promise.resolve<Required<BucketContractSubject>>({
    bucket,
    neighbour: new InMemoryBucket(),
    parts: (key) => Promise.resolve(bucket.parts(key)),
    leaveParts: (key) => {
      bucket.leaveParts(key);
      return Promise.resolve();
    },
    withClockAhead: (aheadMs) => Promise.resolve(Object.assign(bucket.another(), { aheadMs })),
    without: (right) => {
      const restricted = bucket.another();
      restricted.before = (operation) => {
        if (operation === right) throw new Error('denied');
      };
      return Promise.resolve(restricted);
    },
    tearDown: () => Promise.resolve(),
  });
});

describe('InMemoryBucket', () => {
  it('does nothing when `before` fails, and the whole operation when `after` fails', async () => {
    const bucket = new InMemoryBucket();
    const fault = new Error('no answer');
    bucket.before = () => Promise.reject(fault);
    await expect(bucket.create('a', Buffer.from('a'))).rejects.toBe(fault);
    bucket.before = () => undefined;
    bucket.after = () => Promise.reject(fault);
    await expect(bucket.create('b', Buffer.from('b'))).rejects.toBe(fault);
    expect(bucket.keys).toEqual(['b']);
  });

  it('shows two processes the same objects, with ages by the clock of each', async () => {
    const bucket = new InMemoryBucket();
    const another = bucket.another();
    another.aheadMs = 3_600_000;
    await bucket.create('a', Buffer.from('a'));
    expect((await another.read('a'))?.ageMs).toBeGreaterThanOrEqual(3_600_000);
    expect((await bucket.read('a'))?.ageMs).toBeLessThan(3_600_000);
    await another.remove(['a']);
    expect(bucket.keys).toEqual([]);
  });
});
