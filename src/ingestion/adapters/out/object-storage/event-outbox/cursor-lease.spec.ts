import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { CURSOR } from '../keys.js';
import { cursorBytes, newCursor } from './cursor.js';
import { CursorLease } from './cursor-lease.js';

const SECOND_MS = 1_000;

describe('the lease of the cursor', () => {
  let bucket: InMemoryBucket;
  let open: CursorLease[];
  const leaseOn = (on = bucket.another()): CursorLease => {
    const lease = new CursorLease(on, () => Promise.resolve());
    open.push(lease);
    return lease;
  };
  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] });
    bucket = new InMemoryBucket();
    open = [];
    await bucket.create(CURSOR, cursorBytes(newCursor(Date.now(), { historical: [], nowcast: [] })));
  });
  afterEach(async () => {
    await Promise.all(open.map((each) => each.release()));
    vi.useRealTimers();
  });

  /**
   * Lets `seconds` seconds pass. In each second, another process tries to take the cursor. Returns whether one of these
   * tries succeeded.
   */
  async function isTakenWithin(seconds: number): Promise<boolean> {
    const other = leaseOn();
    for (let second = 0; second < seconds; second++) {
      await vi.advanceTimersByTimeAsync(SECOND_MS);
      // The operations of the in-memory bucket take iterations of the event loop, but no time of the fake clock.
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
      if (await other.take()) return true;
    }
    return false;
  }

  it.each([
    ['that never reaches the store', 'before', Infinity],
    ['that the store carries out after 30 s', 'before', 30],
    ['whose answer takes 30 s', 'after', 30],
    ['whose answer never arrives', 'after', Infinity],
  ] as const)('survives a write %s', async (_, moment, seconds) => {
    const on = bucket.another();
    const lease = leaseOn(on);
    await lease.take();
    on[moment] = (operation) => {
      if (operation !== 'replace') return;
      on[moment] = () => undefined;
      return new Promise<void>((done) => seconds < Infinity && setTimeout(done, seconds * SECOND_MS));
    };
    expect(await isTakenWithin(120)).toBe(false);
    await expect(lease.write()).resolves.toBeUndefined();
  });

  it('is lost if the store is silent for 40 s', async () => {
    const on = bucket.another();
    await leaseOn(on).take();
    on.before = () => new Promise<void>(() => undefined);
    expect(await isTakenWithin(41)).toBe(true);
    on.before = () => undefined;
    // The lease abandons its hanging requests after their time limit, so that `afterEach` can release it.
    await vi.advanceTimersByTimeAsync(30 * SECOND_MS);
  });
});
