import type { StorageLogger } from './storage-logger.js';

const EVERY_MS = 2_000;

/** The texts that a `LoggedProgress` logs. */
export interface ProgressTexts {
  /** The name of the work. Each line of the log begins with it. */
  readonly work: string;
  /** Says how much of the work is done. */
  readonly soFar: (done: number) => string;
  /** Says, at the end of the work, how much was done in all. */
  readonly inAll: (done: number) => string;
}

/**
 * Logs the progress of long work, at most every two seconds, and its end. Logs nothing if the work takes less than two
 * seconds.
 */
export class LoggedProgress {
  private readonly began = performance.now();
  private logged = this.began;
  private done = 0;

  constructor(
    private readonly logger: StorageLogger,
    private readonly texts: ProgressTexts,
  ) {}

  /** Counts work that was done since the last call of `add`. Logs the progress, but at most every two seconds. */
  add(amount: number): void {
    this.done += amount;
    const now = performance.now();
    if (now - this.logged < EVERY_MS) return;
    this.logged = now;
    this.logger.log?.(`${this.texts.work}: ${this.texts.soFar(this.done)}.`);
  }

  /** Logs that the work is done, and how long it took. Logs nothing if `add` has logged nothing. */
  end(): void {
    if (this.logged === this.began) return;
    const seconds = Math.round((performance.now() - this.began) / 1000);
    this.logger.log?.(`${this.texts.work}: ${this.texts.inAll(this.done)} in ${seconds} s.`);
  }
}
