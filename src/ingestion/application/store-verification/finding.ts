import { messageOf } from '../../../common/error-message.js';

export type FindingKind =
  /** An index line whose file is missing, or isn't a regular file. */
  | 'bytes-absent'
  | 'bytes-size'
  | 'bytes-digest'
  /** An uploaded file that no index line names. */
  | 'line-absent'
  /** A segment (a file of index lines) that doesn't end with a whole line. */
  | 'line-torn'
  /** An index line that doesn't conform to docs/durability.md. */
  | 'line-malformed'
  | 'line-duplicate'
  /** A second upload under one `idempotency_key`, of the same kind and customer, within 24 hours of the other. */
  | 'key-duplicate'
  /**
   * In a bucket, a missing claim: the object by which a repeated request under an `idempotency_key` finds its upload.
   */
  | 'claim-absent'
  /** A name in uploads/ or files/ that isn't part of the layout, or has the wrong type. Nothing below it is checked. */
  | 'name-unknown'
  /** Unfinished work of an upload or removal, in progress or left by a crash; or a new version of a file. */
  | 'staged'
  | 'unreadable';

/** A difference between a store and a complete store that no service is writing to. */
export interface Finding {
  /**
   * - `defect`: something is wrong.
   * - `under-way`: a running service will soon finish this work, or a crash left it, and a service will clean it up or
   * repair it: in a bucket any running one, elsewhere the next one that starts.
   * - `unknown`: something couldn't be checked.
   */
  readonly state: 'defect' | 'under-way' | 'unknown';
  readonly kind: FindingKind;
  /** A path relative to the store's root. For a finding about an index line itself, the path of its segment. */
  readonly path: string;
  /** The upload's id; null if there is none, or if it is unknown. For a name in staging/, that name. */
  readonly uploadId: string | null;
  /** The index line that the finding is about, or whose file it is about; otherwise null. */
  readonly line: { readonly segment: string; /** Bytes from the segment's beginning. */ readonly offset: number } | null;
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
