/** Logs problems that a storage adapter can't repair at once. Nest's `Logger` is a `StorageLogger`. */
export interface StorageLogger {
  warn(message: string, cause?: unknown): void;
  /** Logs the progress of long work. */
  log?(message: string): void;
}
