import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { withTimeLimit } from './time-limit.js';

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });

const silence = (): Error => new Error('silent');

it('settles as the call does, and leaves no timer', async () => {
  expect(await withTimeLimit(10, () => Promise.resolve('done'), silence)).toBe('done');
  await expect(withTimeLimit(10, () => Promise.reject(new Error('failed')), silence)).rejects.toThrow('failed');
  expect(vi.getTimerCount()).toBe(0);
});

it.each(['resolves', 'rejects'])('rejects with the error of the limit, even if the call %s when it is aborted', async (outcome) => {
  const ending = new AbortController();
  const call = new Promise<void>((resolve, reject) => {
    ending.signal.addEventListener('abort', () => {
      if (outcome === 'resolves') resolve();
      else reject(new Error('aborted'));
    });
  });
  const limited = withTimeLimit(10, () => call, silence, (error) => { ending.abort(error); });
  const failed = expect(limited).rejects.toThrow('silent');
  await vi.advanceTimersByTimeAsync(10);
  await failed;
  expect(ending.signal.reason).toEqual(silence());
});

it('restarts the limit at each progress', async () => {
  let progress = (): void => undefined;
  let hasFailed = false;
  const limited = withTimeLimit(10, (onProgress) => {
    progress = onProgress;
    return new Promise(() => undefined);
  }, silence).catch(() => { hasFailed = true; });
  for (let piece = 0; piece < 3; piece++) {
    await vi.advanceTimersByTimeAsync(9);
    progress();
  }
  expect(hasFailed).toBe(false);
  await vi.advanceTimersByTimeAsync(10);
  await limited;
  expect(hasFailed).toBe(true);
});
