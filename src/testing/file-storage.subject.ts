import type { FileStorage, UploadDraft } from '../ingestion/application/ports/file-storage.port.js';

/** The subject of one test of a store: a new, empty store, and access to its contents. */
export interface FileStorageContractSubject {
  readonly storage: FileStorage;
  /** Whether the store may hold whole files in memory. Default: false. */
  readonly isInMemory?: boolean;
  /** Closes the `FileStorage`, and returns a new one for the same contents. */
  reopen(): Promise<FileStorage>;
  /** All lines of the index, parsed as JSON, in any order. */
  lines(): Promise<object[]>;
  /** The content of a stored file. Null if there is no file at this path. */
  bytes(path: string): Promise<Buffer | null>;
  /** The paths of all stored files, without files of uploads in progress. */
  contentPaths(): Promise<string[]>;
  /**
   * Stores a draft as if its upload had been completed `ageMs` ago. Not needed for a store that determines the age of
   * an upload from `receivedAt` alone.
   */
  storeEarlier?(draft: UploadDraft, ageMs: number): Promise<unknown>;
  tearDown(): Promise<void>;
}
