import { messageOf } from '../../../common/error-message.js';

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
  /** A segment (a file of index lines) that doesn't end with a whole line. */
  | 'line-torn'
  /** An index line that doesn't conform to docs/durability.md. */
  | 'line-malformed'
  /** A second index line with the same `upload_id`. */
  | 'line-duplicate'
  /**
   * A second upload under one `idempotency_key`, of the same kind and customer, received within 24 hours of the other.
   */
  | 'key-duplicate'
  /**
   * In a bucket, a missing claim. A claim is the object by which a repeated request under an `idempotency_key` finds
   * its upload. Only uploads that were received less than 24 hours ago need a claim.
   */
  | 'claim-absent'
  /**
   * A name in uploads/ or files/ that isn't part of the layout, or has the wrong type (file or directory). If it is a
   * directory, nothing in it is checked.
   */
  | 'name-unknown'
  /**
   * Unfinished work: a file in staging/ (in a bucket, a marker) that belongs to an upload or removal in progress, or
   * that a crash left there; or, beside a file or segment, the new version that is to replace it.
   */
  | 'staged'
  /** A directory, segment, file or claim that couldn't be read, so that its state is unknown. */
  | 'unreadable';

/** A difference between a store and a complete store that no service is writing to. */
export interface Finding {
  /**
   * - `defect`: something is wrong.
   * - `under-way`: nothing is wrong. Either a running service will soon finish this piece of work, or a crash left it,
   *   and a service will clean it up or repair it: in a bucket any running one, elsewhere the next one that starts.
   * - `unknown`: something couldn't be checked.
   */
  readonly state: 'defect' | 'under-way' | 'unknown';
  readonly kind: FindingKind;
  /**
   * The path that the finding is about, relative to the store's root. If the finding is about an index line itself, and
   * not about the line's file, the path of the line's segment.
   */
  readonly path: string;
  /**
   * The id of the upload that the finding is about; null if there is none, or if it is unknown. For a name in staging/,
   * that name.
   */
  readonly uploadId: string | null;
  /**
   * Where the index line begins that the finding is about; also for a finding about the line's file. Null if the
   * finding isn't about a line or its file.
   */
  readonly line: { readonly segment: string; /** Bytes from the segment's beginning. */ readonly offset: number } | null;
  /** The finding in words, for a person. */
  readonly detail: string;
}

/** The finding about a directory or segment that can't be read. */
export const unreadable = (path: string, error: unknown): Finding => ({
  state: 'unknown',
  kind: 'unreadable',
  path,
  uploadId: null,
  line: null,
  detail: messageOf(error),
});
