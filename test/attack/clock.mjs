import { renameSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
/**
 * The longest time until a process has a new offset, with a margin. It reads the file every 5 ms (shifted-clock.mjs).
 */
const LAG_MS = 10;

/** The clock of a service process. It runs at the machine's pace, at an offset that can change at any time. */
export class Clock {
  #path;
  #jumps = [];
  offset = 0;

  /** @param {string} path the path of the file with the offset */
  constructor(path) {
    this.#path = path;
    this.#write();
  }

  /** The URL of the module that a service process must preload. `variables` are its environment. */
  static preload = new URL('shifted-clock.mjs', import.meta.url).href;

  get variables() {
    return { CLOCK_FILE: this.#path };
  }

  /** The time of the process, in milliseconds since the epoch. */
  now() {
    return Date.now() + this.offset;
  }

  /** Sets the offset, and resolves when the process has it. */
  async jumpTo(offset) {
    this.offset = offset;
    this.#jumps.push(performance.now() + LAG_MS);
    this.#write();
    await delay(2 * LAG_MS);
  }

  /** The number of jumps since a moment, which is a time of `performance.now()`. */
  jumpsSince(moment) {
    return this.#jumps.filter((jump) => jump >= moment).length;
  }

  /** Milliseconds until the next midnight (UTC) of this clock. */
  untilMidnight() {
    return DAY_MS - (this.now() % DAY_MS);
  }

  #write() {
    writeFileSync(`${this.#path}.new`, String(this.offset));
    renameSync(`${this.#path}.new`, this.#path);
  }
}
