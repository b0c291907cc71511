import type { FindingKind } from './finding.js';
import type { SegmentLine } from './segment-lines.js';

/** A name beneath a directory of the store. */
export interface Entry {
  /** `unknown`: the layout has no such name, or not of this type. */
  readonly type: 'file' | 'unknown' | 'unreadable';
  /** Relative to the root. */
  readonly path: string;
  readonly name: string;
  /** Of an unreadable directory. */
  readonly error?: unknown;
}

/** A segment with its size in bytes, which is for the progress only, or what else is beneath uploads/. */
export interface SegmentEntry extends Entry {
  readonly size: number;
}

/** Lines that couldn't be read. */
export interface UnreadableLines {
  /** The segment, or its directory. */
  readonly path: string;
  readonly error: unknown;
}

/** What a line says of its file. */
export interface ExpectedContent {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** Lower-case hex. */
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

/** Undefined where the digest is the expected one. */
export const digestProblem = (sha256: string, expected: ExpectedContent): ContentProblem | undefined =>
  sha256 === expected.sha256
    ? undefined
    : { kind: 'bytes-digest', detail: `the file has sha-256 ${sha256}, its line says ${expected.sha256}` };

/** Counts bytes that were read. */
export type OnBytes = (count: number) => void;

/**
 * What a verification asks of a store, which a service may be writing to. Nothing here writes; memory doesn't depend on
 * what is stored. What single files, segments or directories throw is told as theirs; everything else rejects.
 */
export interface StoreView {
  /** Who removes what a lost process left, in words. */
  readonly mender: string;
  /** Whether a running service may write lines anew into another segment, and then remove the first. */
  readonly movesLines: boolean;

  /** The segments beneath uploads/, and what else is there. */
  segments(): AsyncIterable<SegmentEntry>;
  /** The files beneath files/, and what else is there. */
  content(): AsyncIterable<Entry>;
  /** What is arriving. */
  staging(): AsyncIterable<Entry>;

  /**
   * The lines of all segments that were there at the call, and of those that took the place of one of them meanwhile. An
   * unterminated end is told only if nobody is writing it. A line may come twice.
   */
  lines(onBytes: OnBytes): AsyncIterable<SegmentLine | UnreadableLines>;

  /**
   * Compares a file with its line; several may be asked for at once.
   *
   * @throws what the store throws when the file is there and can't be read.
   */
  check(expected: ExpectedContent, onBytes: OnBytes): Promise<ContentProblem | undefined>;

  /** Whether a file that doesn't match its line is restored after a loss of the process. */
  isRestorable(uploadId: string, contentPath: string): Promise<boolean>;
  /** Tells which files without a line are being published, or looked after; asked after the files were seen. */
  publications(): Promise<(uploadId: string, contentPath: string) => Promise<boolean>>;
  /** Whether a segment is open, or its end is to be looked at by the next boot. */
  isOpen(segment: string): Promise<boolean>;
  /** Whether a line that was read is there to stay; one of a failed write is not. */
  stays(segment: string, lineEnd: number): Promise<boolean>;
  /**
   * Whether the claim of an idempotency scope is absent, though a line that was read needs it to be found again. Only for
   * a store that keeps claims.
   */
  isClaimAbsent?(scope: string, receivedAt: Date): Promise<boolean>;
  /**
   * How two segments come to have the same line, of which the first was read before the second: they `both` have it, or
   * one `replaces` the other now, or one has replaced the other and is the only one that is still there.
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
