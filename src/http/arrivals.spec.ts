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

  /** Opens one connection in each of `times` iterations of the event loop, which take `milliseconds` each. */
  async function connect(arrivals: Arrivals, times: number, milliseconds = 1): Promise<void> {
    for (let connection = 0; connection < times; connection++) {
      arrivals.arrived();
      await nextIteration();
      vi.advanceTimersByTime(milliseconds);
    }
  }

  it('delays no body when no connection arrives', () => {
    expect(new Arrivals().ended()).toBeUndefined();
  });

  it('delays bodies until no more connections arrive, and does so again for the next burst', async () => {
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

  it('delays bodies for at most 200 ms, and then not again for a second', async () => {
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
