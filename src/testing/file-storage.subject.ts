import type { FileStorage, UploadDraft } from '../ingestion/application/ports/file-storage.port.js';

/**
 * The subject of one test of a store: a new, empty store, and access to its contents without the port `FileStorage`.
 */
export interface FileStorageContractSubject {
  readonly storage: FileStorage;
  /** Whether the store keeps its contents in memory only. If so, it may hold whole files in memory. */
  readonly isInMemory?: boolean;
  /** Restarts the store: closes its `FileStorage`, and returns a new one for the same contents. */
  reopen(): Promise<FileStorage>;
  /** Parses all lines of the store's index, one per upload. They may be in any order. */
  lines(): Promise<object[]>;
  /** The bytes of the file at a content path; null if there is no such file. */
  bytes(path: string): Promise<Buffer | null>;
  /** The content paths of all stored files. Files of uploads in progress don't count. */
  contentPaths(): Promise<string[]>;
  /**
   * Stores a draft as if its upload had been completed `ageMs` milliseconds ago. Not needed for a store that determines
   * the age of an upload from `receivedAt` alone.
   */
  storeEarlier?(draft: UploadDraft, ageMs: number): Promise<unknown>;
  /** Called after the test. Releases what the other members use. */
  tearDown(): Promise<void>;
}
