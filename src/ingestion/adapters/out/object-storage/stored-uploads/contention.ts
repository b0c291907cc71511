import { setTimeout as sleep } from 'node:timers/promises';

const PAUSE_MS = 50;

/**
 * Resolves after a random pause, which may be 50 ms longer after each attempt. To be called when another process has
 * changed an object first, so that processes that want to change the same object give each other time.
 *
 * @param attempt the number of the attempt that came too late, counted from 0.
 */
export const pauseAfter = (attempt: number): Promise<void> => sleep(Math.random() * PAUSE_MS * (attempt + 1));
