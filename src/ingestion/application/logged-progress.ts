import type { StorageLogger } from './storage-logger.js';

const EVERY_MS = 2_000;

/** What a `LoggedProgress` logs. */
export interface ProgressTexts {
  /** What is done, at the beginning of each line. */
  readonly work: string;
  /** How far the work is. */
  readonly soFar: (done: number) => string;
  /** What was done at the end. */
  readonly inAll: (done: number) => string;
}

/** Logs the progress of work, at most every two seconds; nothing if the work takes less. */
export class LoggedProgress {
  private readonly began = performance.now();
  private logged = this.began;
  private done = 0;

  constructor(
    private readonly logger: StorageLogger,
    private readonly texts: ProgressTexts,
  ) {}

  /** Call `add` with how much was done since the last call. */
  add(amount: number): void {
    this.done += amount;
    const now = performance.now();
    if (now - this.logged < EVERY_MS) return;
    this.logged = now;
    this.logger.log?.(`${this.texts.work}: ${this.texts.soFar(this.done)}.`);
  }

  /** Logs that all is done, and how long it took, unless it took so little time that no progress was logged. */
  end(): void {
    if (this.logged === this.began) return;
    const seconds = Math.round((performance.now() - this.began) / 1000);
    this.logger.log?.(`${this.texts.work}: ${this.texts.inAll(this.done)} in ${seconds} s.`);
  }
}
