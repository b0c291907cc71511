/** Logs problems that a storage adapter can't repair at once. Nest's `Logger` can be used as a `StorageLogger`. */
export interface StorageLogger {
  warn(message: string, cause?: unknown): void;
  /** Logs the progress of long work. */
  log?(message: string): void;
}
