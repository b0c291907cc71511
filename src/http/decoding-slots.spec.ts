import { setImmediate as settled } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DecodingSlots } from './decoding-slots.js';

describe('DecodingSlots', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Bodies that begin in this order; each ends when it is told to. */
  function ask(count: number) {
    const slots = new DecodingSlots();
    const begun: number[] = [];
    const ends = Array.from({ length: count }, async (_, body) => {
      const end = await slots.take();
      begun.push(body);
      return end;
    });
    const end = async (body: number) => {
      (await ends[body])?.();
      await settled();
    };
    return { begun, end };
  }

  it('lets four begin, and then, by turns, the oldest and the newest', async () => {
    const { begun, end } = ask(8);
    await settled();
    expect(begun).toEqual([0, 1, 2, 3]);
    for (const body of [0, 1, 1, 2, 3]) await end(body);
    expect(begun).toEqual([0, 1, 2, 3, 4, 7, 5, 6]);
  });

  it('lets the next one begin when one takes over two seconds, once', async () => {
    const { begun, end } = ask(9);
    await settled();
    vi.advanceTimersByTime(2_000);
    await settled();
    expect(begun).toHaveLength(8);
    for (const body of [0, 1, 2, 3]) await end(body);
    expect(begun).toHaveLength(8);
  });
});
