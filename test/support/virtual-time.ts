import { request } from 'undici';
import { vi } from 'vitest';

const STEP_MS = 10;
/** More turns of the event loop than an exchange over HTTP takes when client and server are in one process. */
const TURNS_PER_STEP = 30;

/** An address that refuses connections. */
const CLOSED = 'http://127.0.0.1:1';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** Lets the other threads of a busy machine do what this thread waits for. */
const realMillisecond = ((realTimeout) => (): Promise<void> => new Promise((resolve) => realTimeout(resolve, 1)))(setTimeout);

/**
 * Does the work on a virtual clock, which stands still while this process has something to do. So the work doesn't
 * depend on how busy the machine is, and waits cost no time. Only for servers in this process that read the same clock;
 * `AbortSignal.timeout` and the time limits of `node:http` are real.
 */
export async function inVirtualTime<T>(begin: () => Promise<T>): Promise<T> {
  // undici has one timer for all of its time limits, which it keeps forever. This call makes sure that it is a real one.
  await request(CLOSED).catch(() => undefined);
  vi.useFakeTimers({ now: Date.now(), toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'] });
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
    vi.useRealTimers();
  }
}
