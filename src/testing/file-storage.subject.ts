import type { FileStorage, UploadDraft } from '../ingestion/application/ports/file-storage.port.js';

/** A new, empty store to test, and access to its contents that bypasses the port `FileStorage`. */
export interface FileStorageContractSubject {
  readonly storage: FileStorage;
  /** Whether the store keeps its contents in memory, as a fake does. If so, it may hold whole files in memory. */
  readonly isInMemory?: boolean;
  /** Restarts the store: closes its `FileStorage`, and returns a new one for the same contents. */
  reopen(): Promise<FileStorage>;
  /** All lines of the store's index, parsed, in any order. */
  lines(): Promise<object[]>;
  /** The bytes of the file at a content path; null if there is no such file. */
  bytes(path: string): Promise<Buffer | null>;
  /** The content paths of all stored files. Files of uploads in progress don't count. */
  contentPaths(): Promise<string[]>;
  /**
   * Stores a draft as if its upload had been complete `ageMs` milliseconds ago. Needed only for stores that don't judge
   * the age of an upload by `receivedAt` alone.
   */
  storeEarlier?(draft: UploadDraft, ageMs: number): Promise<unknown>;
  /** Releases the resources of the subject. */
  tearDown(): Promise<void>;
}
