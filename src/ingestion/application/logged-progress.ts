import type { StorageLogger } from './storage-logger.js';

const EVERY_MS = 2_000;

export interface ProgressTexts {
  readonly work: string;
  readonly soFar: (done: number) => string;
  readonly inAll: (done: number) => string;
}

/** Logs the progress and end of long work, at most every two seconds. Work of less than two seconds isn't logged. */
export class LoggedProgress {
  private readonly began = performance.now();
  private logged = this.began;
  private done = 0;

  constructor(
    private readonly logger: StorageLogger,
    private readonly texts: ProgressTexts,
  ) {}

  add(amount: number): void {
    this.done += amount;
    const now = performance.now();
    if (now - this.logged < EVERY_MS) return;
    this.logged = now;
    this.logger.log?.(`${this.texts.work}: ${this.texts.soFar(this.done)}.`);
  }

  end(): void {
    if (this.logged === this.began) return;
    const seconds = Math.round((performance.now() - this.began) / 1000);
    this.logger.log?.(`${this.texts.work}: ${this.texts.inAll(this.done)} in ${seconds} s.`);
  }
}
