import { renameSync, writeFileSync } from 'node:fs';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** The clock of a service process. It runs at the machine's pace, at an offset that can change at any time. */
export class Clock {
  #path;
  #jumps = [];
  offset = 0;

  /** @param {string} path of the file that tells the process the offset */
  constructor(path) {
    this.#path = path;
    this.#write();
  }

  /** The module to preload, and its variables. */
  static preload = new URL('shifted-clock.mjs', import.meta.url).href;

  get variables() {
    return { CLOCK_FILE: this.#path };
  }

  /** What the process takes for the time, in milliseconds since the epoch. */
  now() {
    return Date.now() + this.offset;
  }

  /** Sets the offset. The process has it 5 ms later at most. */
  jumpTo(offset) {
    this.offset = offset;
    this.#jumps.push(performance.now());
    this.#write();
  }

  /** Whether it jumped since a moment of `performance.now()`. */
  hasJumpedSince(moment) {
    return this.#jumps.some((jump) => jump >= moment);
  }

  /** Milliseconds until its next midnight UTC. */
  untilMidnight() {
    return DAY_MS - (this.now() % DAY_MS);
  }

  #write() {
    writeFileSync(`${this.#path}.new`, String(this.offset));
    renameSync(`${this.#path}.new`, this.#path);
  }
}
