import { setImmediate as nextIteration } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Arrivals } from './arrivals.js';

describe('Arrivals', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** One connection in each of so many iterations, which take so long. */
  async function connect(arrivals: Arrivals, times: number, milliseconds = 1): Promise<void> {
    for (let connection = 0; connection < times; connection++) {
      arrivals.arrived();
      await nextIteration();
      vi.advanceTimersByTime(milliseconds);
    }
  }

  it('lets nobody wait when no connection arrives', () => {
    expect(new Arrivals().ended()).toBeUndefined();
  });

  it('lets bodies wait until no connection arrives any more, and those that come later again', async () => {
    const arrivals = new Arrivals();
    for (const burst of [20, 30]) {
      await connect(arrivals, 1);
      let hasEnded = false;
      const ended = arrivals.ended()?.then(() => { hasEnded = true; });
      await connect(arrivals, burst);
      expect(hasEnded).toBe(false);
      await ended;
      expect([hasEnded, arrivals.ended()]).toEqual([true, undefined]);
    }
  });

  it('lets them wait for 200 ms at most, and then no more for a second', async () => {
    const arrivals = new Arrivals();
    await connect(arrivals, 1);
    let hasEnded = false;
    void arrivals.ended()?.then(() => { hasEnded = true; });
    await connect(arrivals, 30, 10);
    expect([hasEnded, arrivals.ended()]).toEqual([true, undefined]);
    await connect(arrivals, 30, 10);
    expect(arrivals.ended()).toBeUndefined();
    vi.advanceTimersByTime(1_000);
    arrivals.arrived();
    expect(arrivals.ended()).toBeDefined();
  });
});
