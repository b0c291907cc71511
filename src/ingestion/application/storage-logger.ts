/** Logs problems that the adapter can't repair at once. Nest's `Logger` is one. */
export interface StorageLogger {
  warn(message: string, cause?: unknown): void;
  /** Logs the progress of long work. */
  log?(message: string): void;
}
