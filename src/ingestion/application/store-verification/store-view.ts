import type { FindingKind } from './finding.js';
import type { SegmentLine } from './line-splitter.js';

/** A file, or any other name, that was found below a directory of the store, such as uploads/. */
export interface Entry {
  /**
   * - `unknown`: the layout has no such name, or the name is of another type, for example a directory for a file.
   * - `replacement`: the new version of a file, which is written beside the file before it replaces the file.
   */
  readonly type: 'file' | 'unknown' | 'unreadable' | 'replacement';
  /** A path relative to the store's root. */
  readonly path: string;
  readonly name: string;
  /** Why the directory can't be read; only if `type` is `unreadable`. */
  readonly error?: unknown;
}

/** A segment (a file of index lines), or any other name below uploads/. `size` is in bytes, to show progress. */
export interface SegmentEntry extends Entry {
  readonly size: number;
}

/** A part of the index that couldn't be read. */
export interface UnreadableLines {
  /** The path of the unreadable segment, or of its directory if that is unreadable. */
  readonly path: string;
  readonly error: unknown;
}

/** What an index line says about its file. */
export interface ExpectedContent {
  readonly path: string;
  /** Length of the file in bytes. */
  readonly size: number;
  /** The sha-256 of the file, in lower-case hex. */
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

/** Compares the sha-256 of a file with that in its index line. Undefined if they are equal, otherwise the problem. */
export const digestProblem = (sha256: string, expected: ExpectedContent): ContentProblem | undefined =>
  sha256 === expected.sha256
    ? undefined
    : { kind: 'bytes-digest', detail: `the file has sha-256 ${sha256}, its line says ${expected.sha256}` };

/** A function that is called after each read with the number of bytes that were read. */
export type OnBytes = (count: number) => void;

/**
 * The operations that a verification needs from a store, while a service may be writing to it. None of them writes, and
 * their memory doesn't depend on the size of the store. If a single directory or segment can't be read, the iterables
 * yield the error with its path. Every other error rejects.
 */
export interface StoreView {
  /** What cleans up after a crash, in the words of a message: for example "the next boot". */
  readonly recoveredBy: string;
  /** Whether a running service moves index lines to other segments: it copies them, then removes the old segment. */
  readonly movesLines: boolean;

  /** Yields the segments, and anything else that is below uploads/. */
  segments(): AsyncIterable<SegmentEntry>;
  /** Yields the files, and anything else that is below files/. */
  content(): AsyncIterable<Entry>;
  /**
   * Yields the names in staging/: files that are arriving (in a bucket, markers of uploads and removals in progress),
   * and those that a crash left there.
   */
  staging(): AsyncIterable<Entry>;

  /**
   * Yields the lines of all segments that existed at the call, and of segments that have replaced one of these since.
   * The end of a segment after its last newline is yielded last, with `isTorn`; if it is also `isRepairable`, a service
   * may still be writing it. A line may be yielded twice.
   */
  lines(onBytes: OnBytes): AsyncIterable<SegmentLine | UnreadableLines>;

  /**
   * Compares a file with what its index line says. Resolves to undefined if they match. Several calls may be in
   * progress at once.
   *
   * @param onBytes called after each read of the file with the number of bytes that were read.
   * @throws an error of the store if the file exists but can't be read.
   */
  check(expected: ExpectedContent, onBytes: OnBytes): Promise<ContentProblem | undefined>;

  /**
   * Whether the next boot after a crash would restore the file of an upload. Called if the file doesn't match its index
   * line.
   */
  isRestorable(uploadId: string, contentPath: string): Promise<boolean>;
  /**
   * Resolves to a function to call for files without an index line. That function resolves to true if the file's upload
   * is in progress or is being removed, or if a crash left the file for recovery. Call this method only after the files
   * were listed.
   */
  publications(): Promise<(uploadId: string, contentPath: string) => Promise<boolean>>;
  /**
   * Whether the end of a segment may still change: either a service appends lines to the segment, or the next boot will
   * check the end and cut off lines that a crash left incomplete or damaged.
   */
  isOpen(segment: string): Promise<boolean>;
  /**
   * Whether an index line that was read is still in the index, even if in another segment. The line of a failed write
   * is cut off, and the line of a removed upload is removed.
   */
  stays(line: SegmentLine): Promise<boolean>;
  /**
   * Whether the claim of an index line is missing. False if the upload was received 24 hours ago or earlier, and so
   * needs no claim. A claim is the object by which a repeated request under an idempotency key finds its upload. Only
   * stores in a bucket keep claims, and have this method.
   *
   * @param scope the idempotency scope in the line (see `idempotencyScope`).
   * @param receivedAt the time in the line.
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
