/** The kinds of problems of a store. */
export type FindingKind =
  /** An index line whose file is missing, or isn't a regular file. */
  | 'bytes-absent'
  /** An index line whose file has another length than the line says. */
  | 'bytes-size'
  /** An index line whose file has another sha-256 than the line says. */
  | 'bytes-digest'
  /** An uploaded file that no index line names. */
  | 'line-absent'
  /** A segment that doesn't end with a whole line. */
  | 'line-torn'
  /** An index line that doesn't conform to docs/durability.md. */
  | 'line-malformed'
  /** A second index line with the same `upload_id`. */
  | 'line-duplicate'
  /**
   * A second upload under one `idempotency_key`, of the same kind and customer, received within 24 hours of the other.
   */
  | 'key-duplicate'
  /** In a bucket, a missing claim of an `idempotency_key` whose upload was received less than 24 hours ago. */
  | 'claim-absent'
  /** A name in uploads/ or files/ that isn't part of the layout. Nothing below it is checked. */
  | 'name-unknown'
  /** A file in staging/. */
  | 'staged'
  /** Something that couldn't be read, so that its state is unknown. */
  | 'unreadable';

/** A difference between a store and a complete store that no service is writing to. */
export interface Finding {
  /**
   * - `defect`: something is wrong.
   * - `under-way`: nothing is wrong. A running service is about to finish its work, or a service that starts later
   *   cleans up or repairs what was left.
   * - `unknown`: something couldn't be checked.
   */
  readonly state: 'defect' | 'under-way' | 'unknown';
  readonly kind: FindingKind;
  /**
   * A path relative to the store's root: of the file or other name that the finding is about, of the segment if only a
   * line is wrong, or of a directory that can't be read.
   */
  readonly path: string;
  /** The id of the upload that the finding is about; null if there is none, or if it is unknown. */
  readonly uploadId: string | null;
  /** The place where the line begins; null if the finding isn't about a line. */
  readonly line: { readonly segment: string; /** Bytes from the segment's beginning. */ readonly offset: number } | null;
  /** The finding in words, for a person. */
  readonly detail: string;
}

/** The `detail` of a finding about something that couldn't be read: the message of the error. */
export const messageOf = (error: unknown): string => (error as Error).message;

/** The finding about a directory or segment that can't be read. */
export const unreadable = (path: string, error: unknown): Finding => ({
  state: 'unknown',
  kind: 'unreadable',
  path,
  uploadId: null,
  line: null,
  detail: messageOf(error),
});
