import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { BackgroundRetries } from './background-retries.js';

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });

it('ends a pause when it is closed, so that the next attempt is made at once and no timer is left', async () => {
  const retries = new BackgroundRetries();
  const attempt = vi.fn(() => Promise.resolve<number | undefined>(retries.isClosed ? undefined : 1_000));
  void retries.repeat(attempt, attempt());
  await vi.advanceTimersByTimeAsync(1_500);
  expect(attempt).toHaveBeenCalledTimes(2);
  await retries.close();
  expect(attempt).toHaveBeenCalledTimes(3);
  expect(retries.size).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});
