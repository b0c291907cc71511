import { setTimeout as delay } from 'node:timers/promises';

const PAUSE_MS = 50;

/**
 * Resolves after a random pause of up to 50 ms for each attempt so far, so that processes that want to change the same
 * object give each other time.
 *
 * @param attempt the number of the attempt that came too late, counted from 0.
 */
export const pauseAfter = (attempt: number): Promise<void> => delay(Math.random() * PAUSE_MS * (attempt + 1));
