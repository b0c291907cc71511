/** Logs the problems that a storage adapter meets and works around. Nest's `Logger` is a `StorageLogger`. */
export interface StorageLogger {
  warn(message: string, cause?: unknown): void;
  log?(message: string): void;
}
