import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { asJob, beginCall } from './begin-call.js';

describe('beginCall', () => {
  let order = '';
  /** Requests calls at once, and notes this letter when each begins. */
  const calls = async (letter: string, count: number): Promise<void> => {
    await Promise.all(Array.from({ length: count }, async () => {
      await beginCall();
      order += letter;
    }));
  };
  const job = (letter: string, count: number): Promise<void> => asJob(() => calls(letter, count));

  beforeEach(() => {
    order = '';
    // The clock stands still, so that the length of an iteration doesn't decide.
    vi.spyOn(performance, 'now').mockReturnValue(0);
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    // The iteration that began the last call ends in the next one.
    for (let iteration = 0; iteration < 2; iteration++) await new Promise(setImmediate);
  });

  it.each<[string, () => Promise<unknown>[], string]>([
    ['single calls in their order', () => [calls('a', 2), calls('b', 3)], 'aabbb'],
    ['a single call soon, although many of a job wait', () => [job('j', 12), calls('s', 1)], 'jsjjjjjjjjjjj'],
    ['a call of a job soon, although many single calls wait', () => [calls('s', 12), job('j', 1)], 'ssssjssssssss'],
    ['one call of jobs in each iteration while single calls wait', () => [job('j', 5), calls('s', 6)], 'jsssjsssjjj'],
    ['calls of jobs in turn', () => [job('j', 5), job('k', 2), job('l', 3)], 'jjkljkljlj'],
  ])('begins %s', async (_, begin, expected) => {
    await Promise.all(begin());
    expect(order).toBe(expected);
  });
});
