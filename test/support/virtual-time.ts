import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { request } from 'undici';
import { vi } from 'vitest';

const STEP_MS = 10;
/** How often the event loop turns before the clock advances: more than an HTTP exchange within one process takes. */
const TURNS_PER_STEP = 30;

const CLOSED = 'http://127.0.0.1:1';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** Waits a millisecond of real time, in which other threads of a busy machine can do what this thread waits for. */
const realMillisecond = ((realTimeout) => (): Promise<void> => new Promise((resolve) => realTimeout(resolve, 1)))(setTimeout);

type Fake = NonNullable<NonNullable<Parameters<typeof vi.useFakeTimers>[0]>['toFake']>[number];

const { setTimeout: realDelay } = timers;

/** A `setTimeout` of `node:timers/promises` on the clock of the global `setTimeout`, which may be a virtual one. */
function delay<T>(ms?: number, value?: T, { signal }: { signal?: AbortSignal } = {}): Promise<T> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve(value as T);
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

function replaceDelay(by: typeof delay | typeof realDelay): void {
  Object.assign(timers, { setTimeout: by });
  syncBuiltinESMExports();
}

/**
 * Stops these functions of the clock until `startClock` is called, except for `vi.advanceTimersByTime`. Stopping
 * `setTimeout` also stops that of `node:timers/promises`, which Vitest doesn't do.
 */
export function stopClock(...toFake: Fake[]): void {
  vi.useFakeTimers({ now: Date.now(), toFake });
  if (toFake.includes('setTimeout')) replaceDelay(delay);
}

export function startClock(): void {
  replaceDelay(realDelay);
  vi.useRealTimers();
}

/**
 * Runs `begin` on a virtual clock, which advances only when this process has nothing to do. So waiting takes almost no
 * time, and the result depends less on how busy the machine is. The servers that `begin` uses must be in this process
 * and read the same clock. `AbortSignal.timeout` and the time limits of `node:http` stay on the real clock.
 */
export async function inVirtualTime<T>(begin: () => Promise<T>): Promise<T> {
  // undici has one timer for all of its time limits, which it creates once and keeps forever. This request makes undici
  // create it as a real timer.
  await request(CLOSED).catch(() => undefined);
  stopClock('setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance');
  const work = { isOver: false };
  try {
    const outcome = begin().finally(() => { work.isOver = true; });
    // The caller handles the rejection.
    outcome.catch(() => undefined);
    while (!work.isOver) {
      await realMillisecond();
      for (let count = 0; count < TURNS_PER_STEP; count++) await turn();
      await vi.advanceTimersByTimeAsync(STEP_MS);
    }
    return await outcome;
  } finally {
    startClock();
  }
}
