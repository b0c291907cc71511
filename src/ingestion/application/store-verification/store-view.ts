import type { FindingKind } from './finding.js';
import type { SegmentLine } from './line-splitter.js';

export interface Entry {
  /**
   * - `unknown`: the layout has no such name, or the name is of another type, for example a directory for a file.
   * - `replacement`: the new version of a file, which is written beside the file before it replaces the file.
   */
  readonly type: 'file' | 'unknown' | 'unreadable' | 'replacement';
  /** The path relative to the store's root. */
  readonly path: string;
  readonly name: string;
  readonly error?: unknown;
}

export interface SegmentEntry extends Entry {
  readonly size: number;
}

/** A part of the index that couldn't be read: `path` is a segment, or the directory of segments. */
export interface UnreadableLines {
  readonly path: string;
  readonly error: unknown;
}

export interface ExpectedContent {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
}

export interface ContentProblem {
  readonly kind: Extract<FindingKind, 'bytes-absent' | 'bytes-size' | 'bytes-digest'>;
  readonly detail: string;
}

export const ABSENT: ContentProblem = { kind: 'bytes-absent', detail: 'the file is absent' };

export const otherSize = (size: number, expected: ExpectedContent): ContentProblem => ({
  kind: 'bytes-size',
  detail: `the file has ${size} bytes, its line says ${expected.size}`,
});

/** Compares the sha-256 of a file with that in its index line; undefined if they are equal. */
export const digestProblem = (sha256: string, expected: ExpectedContent): ContentProblem | undefined =>
  sha256 === expected.sha256
    ? undefined
    : { kind: 'bytes-digest', detail: `the file has sha-256 ${sha256}, its line says ${expected.sha256}` };

export type OnBytes = (count: number) => void;

/**
 * Reads a store for its verification, while a service may be writing to it. Its memory doesn't depend on the size of
 * the store. If a single directory or segment can't be read, the iterables yield the error with its path. Every other
 * error rejects.
 */
export interface StoreView {
  /** A text for messages: what removes or repairs the leftovers of a crash, for example "the next boot". */
  readonly recoveredBy: string;
  /** Whether a running service copies index lines to other segments, and then removes the old ones. */
  readonly movesLines: boolean;

  segments(): AsyncIterable<SegmentEntry>;
  content(): AsyncIterable<Entry>;
  /**
   * Files that are arriving (in a bucket, markers of uploads and removals in progress), and those that a crash left.
   */
  staging(): AsyncIterable<Entry>;

  /**
   * Yields the lines of all segments that existed at the call, and of segments that have replaced one of these since.
   * The end of a segment after its last newline is yielded last, with `isTorn`; if it is also `isRepairable`, a service
   * may still be writing it. A line may be yielded twice.
   */
  lines(onBytes: OnBytes): AsyncIterable<SegmentLine | UnreadableLines>;

  /**
   * Compares a file with its index line; undefined if they match. Several calls may be in progress at once.
   *
   * @throws an error of the store if the file exists but can't be read.
   */
  check(expected: ExpectedContent, onBytes: OnBytes): Promise<ContentProblem | undefined>;

  /** Whether the next boot after a crash would restore the file of an upload. */
  isRestorable(uploadId: string, contentPath: string): Promise<boolean>;
  /**
   * Must be called only after the files were listed. Resolves to a function that returns whether the upload of a file
   * without an index line is in progress or being removed, or a crash left the file for recovery.
   */
  publications(): Promise<(uploadId: string, contentPath: string) => Promise<boolean>>;
  /** Whether a service may still append to the segment, or the next boot will repair its end. */
  isOpen(segment: string): Promise<boolean>;
  /** Whether an index line that was read is still in the index, even if in another segment. */
  stays(line: SegmentLine): Promise<boolean>;
  /**
   * Whether the claim of an index line is missing: the object by which a repeated request under an idempotency key
   * finds its upload. False if the upload was received 24 hours ago or earlier. Only stores in a bucket have claims.
   *
   * @param scope the idempotency scope in the line (see `idempotencyScope`).
   */
  isClaimAbsent?(scope: string, receivedAt: Date): Promise<boolean>;
  /**
   * How two segments are related. The same index line was read in both: in `first`, and later in `second`.
   *
   * - `both`: both segments still exist, and neither replaces the other.
   * - `replaces`: one is replacing the other right now.
   * - `first-only`, `second-only`: one has replaced the other, and only that one still exists.
   */
  relation(first: string, second: string): Promise<'both' | 'replaces' | 'first-only' | 'second-only'>;
}

/** The error when a store can't be verified at all. */
export class NoStoreError extends Error {
  constructor(store: string, reason: string) {
    super(`${store}: ${reason}`);
    this.name = new.target.name;
  }
}
