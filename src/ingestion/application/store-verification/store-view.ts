import type { FindingKind } from './finding.js';
import type { SegmentLine } from './segment-lines.js';

/** A file, or any other name, that was found below a directory of the store, such as uploads/. */
export interface Entry {
  /** `unknown`: the layout has no such name, or the name is of another type, for example a directory for a file. */
  readonly type: 'file' | 'unknown' | 'unreadable';
  /** A path relative to the store's root. */
  readonly path: string;
  readonly name: string;
  /** Why the directory can't be read; only if `type` is `unreadable`. */
  readonly error?: unknown;
}

/** A segment, or anything else below uploads/. `size` is in bytes, and is used only to show progress. */
export interface SegmentEntry extends Entry {
  readonly size: number;
}

/** Lines of the index that couldn't be read. */
export interface UnreadableLines {
  /** The path of the segment, or of its directory if the problem isn't limited to one segment. */
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

/** The problem of a file that has this sha-256; undefined if its index line says the same sha-256. */
export const digestProblem = (sha256: string, expected: ExpectedContent): ContentProblem | undefined =>
  sha256 === expected.sha256
    ? undefined
    : { kind: 'bytes-digest', detail: `the file has sha-256 ${sha256}, its line says ${expected.sha256}` };

/** A function that is called after each read with the number of bytes that were read. */
export type OnBytes = (count: number) => void;

/**
 * The operations that a verification needs from a store, while a service may be writing to it. They write nothing, and
 * their memory doesn't depend on the size of the store. An iterable yields the error of a single directory or segment
 * with its path. Every other error rejects.
 */
export interface StoreView {
  /** The name, for messages, of what cleans up after a crashed process: for example "the next boot". */
  readonly mender: string;
  /** Whether a running service can move lines: it copies them to another segment, then removes the old segment. */
  readonly movesLines: boolean;

  /** Yields the segments, and anything else that is below uploads/. */
  segments(): AsyncIterable<SegmentEntry>;
  /** Yields the files, and anything else that is below files/. */
  content(): AsyncIterable<Entry>;
  /** Yields the names in staging/: uploads that are arriving, and what a crashed process left there. */
  staging(): AsyncIterable<Entry>;

  /**
   * Yields the lines of all segments that existed at the call, and of those that have since replaced one of them. If a
   * segment doesn't end with a newline, its unterminated end is yielded after its lines, with `isTorn`. If that end is
   * also `isMendable`, a service may still be writing it. A line may be yielded twice.
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

  /** Whether the next boot after a crash restores the file of an upload, if it doesn't match its index line. */
  isRestorable(uploadId: string, contentPath: string): Promise<boolean>;
  /**
   * Resolves to a function that reports whether the upload of a file without an index line is still in progress or
   * being removed, or was left for recovery by a crashed process. Call `publications` after the files were listed.
   */
  publications(): Promise<(uploadId: string, contentPath: string) => Promise<boolean>>;
  /**
   * Whether the end of a segment may still change: a service may append lines to the segment, or the next boot will
   * check the end and cut off lines that a crash left incomplete or damaged.
   */
  isOpen(segment: string): Promise<boolean>;
  /**
   * Whether a line that was read is still in the index, even if in another segment. The line of a failed write is cut
   * off again, and the line of a removed upload is removed.
   */
  stays(segment: string, lineEnd: number): Promise<boolean>;
  /**
   * Whether the claim of an idempotency scope is missing, although a repeated request would need the claim to find the
   * upload. The upload's line was read, with this scope and this time. Only a store that keeps claims has this method.
   */
  isClaimAbsent?(scope: string, receivedAt: Date): Promise<boolean>;
  /**
   * Why two segments, of which the first was read before the second, contain the same line. `both` exist and contain
   * it; one of them `replaces` the other right now; or one has replaced the other, and only that one still exists
   * (`first-only`, `second-only`).
   */
  relation(first: string, second: string): Promise<'both' | 'replaces' | 'first-only' | 'second-only'>;
}

/** A store that can't be verified at all. */
export class NoStoreError extends Error {
  constructor(store: string, reason: string) {
    super(`${store}: ${reason}`);
    this.name = new.target.name;
  }
}
