import type { FileStorage, UploadDraft } from '../ingestion/application/ports/file-storage.port.js';

/** A new, empty store, and access to its contents that bypasses the port. */
export interface FileStorageContractSubject {
  readonly storage: FileStorage;
  /** Whether the store keeps its contents in memory, like a fake. It may then hold whole files in memory. */
  readonly isInMemory?: boolean;
  /** Restarts the store: closes the previous storage and returns a new one on the same contents. */
  reopen(): Promise<FileStorage>;
  /** All index lines, parsed, in any order. */
  lines(): Promise<object[]>;
  /** The bytes of the file at a content path; null if there is no such file. */
  bytes(path: string): Promise<Buffer | null>;
  /** The content paths of all visible files. */
  contentPaths(): Promise<string[]>;
  /**
   * Stores a draft as if it had been complete `ageMs` milliseconds ago. For stores where `receivedAt` alone doesn't
   * decide the age of an upload.
   */
  storeEarlier?(draft: UploadDraft, ageMs: number): Promise<unknown>;
  /** Releases the resources of the subject. */
  tearDown(): Promise<void>;
}
