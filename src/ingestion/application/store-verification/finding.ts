/** The kinds of problems of a store. */
export type FindingKind =
  /** A line whose file is missing, or isn't a regular file. */
  | 'bytes-absent'
  /** A line whose file has another length. */
  | 'bytes-size'
  /** A line whose file has another sha-256. */
  | 'bytes-digest'
  /** A file that no line names. */
  | 'line-absent'
  /** A segment that doesn't end with a whole line. */
  | 'line-torn'
  /** A line that doesn't conform to docs/durability.md. */
  | 'line-malformed'
  /** A second line with the same `upload_id`. */
  | 'line-duplicate'
  /**
   * A second upload under one `idempotency_key`, of the same kind and customer, received within 24 hours of the other.
   */
  | 'key-duplicate'
  /** In a bucket, a missing claim of an `idempotency_key` whose line was received less than 24 hours ago. */
  | 'claim-absent'
  /** A name in uploads/ or files/ that isn't part of the layout. Nothing below it is checked. */
  | 'name-unknown'
  /** A file in staging/. */
  | 'staged'
  /** Something that couldn't be read, so that its state is unknown. */
  | 'unreadable';

/** A deviation from a store at rest. */
export interface Finding {
  /**
   * - `defect`: it is wrong.
   * - `under-way`: a running service is about to finish it, or will repair it, if not this one then a later one.
   * - `unknown`: it couldn't be checked.
   */
  readonly state: 'defect' | 'under-way' | 'unknown';
  readonly kind: FindingKind;
  /** Relative to the store's root: the file, or the segment if only a line is wrong. */
  readonly path: string;
  /** Null if the finding has no upload, or its upload is unknown. */
  readonly uploadId: string | null;
  /** Where the line begins, for a finding about a line. */
  readonly line: { readonly segment: string; /** Bytes from the segment's beginning. */ readonly offset: number } | null;
  /** A description in words. */
  readonly detail: string;
}
