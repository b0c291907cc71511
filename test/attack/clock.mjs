import { renameSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
/** The time until a process follows a jump: it reads the offset from a file every 5 ms (shifted-clock.mjs). */
const LAG_MS = 10;

/** The clock of a service process: the machine's clock at an offset that can change at any time. */
export class Clock {
  #path;
  #jumps = [];
  offset = 0;

  constructor(path) {
    this.#path = path;
    this.#write();
  }

  /**
   * The module that a service process must preload to use this clock. The process also needs the environment
   * `variables`.
   */
  static preload = new URL('shifted-clock.mjs', import.meta.url).href;

  get variables() {
    return { CLOCK_FILE: this.#path };
  }

  /** The time of the clock, in milliseconds since 1970. */
  now() {
    return Date.now() + this.offset;
  }

  /** Sets the clock's offset in milliseconds, and resolves when the process has read it. */
  async jumpTo(offset) {
    this.offset = offset;
    this.#jumps.push(performance.now() + LAG_MS);
    this.#write();
    await delay(2 * LAG_MS);
  }

  /** The number of the clock's jumps since a time of `performance.now()`. */
  jumpsSince(moment) {
    return this.#jumps.filter((jump) => jump >= moment).length;
  }

  untilMidnight() {
    return DAY_MS - (this.now() % DAY_MS);
  }

  #write() {
    writeFileSync(`${this.#path}.new`, String(this.offset));
    renameSync(`${this.#path}.new`, this.#path);
  }
}
