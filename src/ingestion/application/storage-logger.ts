/** Where what the adapter can't mend at once is told; Nest's `Logger` is one. */
export interface StorageLogger {
  warn(message: string, cause?: unknown): void;
  /** Progress of work that takes long. */
  log?(message: string): void;
}
