import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { request } from 'undici';
import { vi } from 'vitest';

const STEP_MS = 10;
/** More than an HTTP exchange takes when client and server are in one process. */
const TURNS_PER_STEP = 30;

const CLOSED = 'http://127.0.0.1:1';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** So that other threads of a busy machine can do what this thread waits for. */
const realMillisecond = ((realTimeout) => (): Promise<void> => new Promise((resolve) => realTimeout(resolve, 1)))(setTimeout);

type Fake = NonNullable<NonNullable<Parameters<typeof vi.useFakeTimers>[0]>['toFake']>[number];

const { setTimeout: realDelay } = timers;

/** On the clock of the global `setTimeout`. */
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
 * Replaces these parts of the clock until `startClock` is called. `vi.advanceTimersByTime` advances them. With
 * `setTimeout`, that of `node:timers/promises` is replaced too, which Vitest doesn't do.
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
 * Runs `begin` on a virtual clock, which advances only when this process has nothing to do. So the result doesn't
 * depend on how busy the machine is, and waiting takes almost no time. The servers that `begin` uses must be in this
 * process and read the same clock. `AbortSignal.timeout` and the time limits of `node:http` stay on the real clock.
 */
export async function inVirtualTime<T>(begin: () => Promise<T>): Promise<T> {
  // undici has one timer for all of its time limits, which it creates once and keeps forever. This call makes sure that
  // undici creates it as a real timer.
  await request(CLOSED).catch(() => undefined);
  stopClock('setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance');
  const work = { isOver: false };
  try {
    const outcome = begin().finally(() => { work.isOver = true; });
    // The rejection is the caller's.
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
