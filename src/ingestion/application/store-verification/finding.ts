/** What can be wrong with a store. */
export type FindingKind =
  /** A line whose file isn't there (or is no plain file). */
  | 'bytes-absent'
  /** A line whose file has another length. */
  | 'bytes-size'
  /** A line whose file has another sha-256. */
  | 'bytes-digest'
  /** A file that no line names. */
  | 'line-absent'
  /** The end of a segment is no whole line. */
  | 'line-torn'
  /** A line that isn't as docs/durability.md says. */
  | 'line-malformed'
  /** A second line with the same `upload_id`. */
  | 'line-duplicate'
  /** A second upload under one `idempotency_key`, of the same kind and customer, received less than 24 hours from the other. */
  | 'key-duplicate'
  /** In a bucket, the claim of an `idempotency_key` is gone whose line was received less than 24 hours ago. */
  | 'claim-absent'
  /** A name in uploads/ or files/ that is none of the layout; what is beneath it isn't looked at. */
  | 'name-unknown'
  /** A file in staging/. */
  | 'staged'
  /** Something that couldn't be read, so that nothing is known about it. */
  | 'unreadable';

/** One thing that isn't as it is in a store at rest. */
export interface Finding {
  /**
   * `defect`: it is wrong. `under-way`: a running service is about to finish it, or puts it in order, a later one at the latest.
   * `unknown`: it couldn't be checked.
   */
  readonly state: 'defect' | 'under-way' | 'unknown';
  readonly kind: FindingKind;
  /** Relative to the store's root: the file, or the segment for what is wrong with a line alone. */
  readonly path: string;
  /** Null where there is none, or none can be told. */
  readonly uploadId: string | null;
  /** Where the line begins, of a finding about a line. */
  readonly line: { readonly segment: string; /** Bytes from the segment's beginning. */ readonly offset: number } | null;
  /** In words. */
  readonly detail: string;
}
