import { renameSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
/**
 * The longest time until a process uses a new clock offset, with a margin. The process reads the offset from a file
 * every 5 ms (shifted-clock.mjs).
 */
const LAG_MS = 10;

/**
 * The clock of a service process. It runs at the pace of the machine's clock, at an offset that can change at any time.
 */
export class Clock {
  #path;
  #jumps = [];
  offset = 0;

  /** @param {string} path the path of the file with the offset, which the process reads */
  constructor(path) {
    this.#path = path;
    this.#write();
  }

  /**
   * The URL of the module that a service process must preload to use this clock. `variables` is the environment that it
   * also needs.
   */
  static preload = new URL('shifted-clock.mjs', import.meta.url).href;

  get variables() {
    return { CLOCK_FILE: this.#path };
  }

  /** The time that the process has, in milliseconds since the epoch. */
  now() {
    return Date.now() + this.offset;
  }

  /** Sets the offset from the machine's clock, in milliseconds, and resolves when the process has it. */
  async jumpTo(offset) {
    this.offset = offset;
    this.#jumps.push(performance.now() + LAG_MS);
    this.#write();
    await delay(2 * LAG_MS);
  }

  /** The number of jumps of this clock since a moment, given as a time of `performance.now()`. */
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
