import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { MIB } from '../../../../../common/sizes.js';
import { concurrently } from '../../../../application/store-verification/concurrently.js';
import { CONTENT, SEGMENTS, STAGING } from '../../../../domain/layout-names.js';
import { LineSplitter, members, type SegmentLine } from '../../../../application/store-verification/line-splitter.js';
import { StoreVerification, type VerificationOptions } from '../../../../application/store-verification/store-verification.js';
import {
  ABSENT,
  type ContentProblem,
  digestProblem,
  type Entry,
  type ExpectedContent,
  NoStoreError,
  type OnBytes,
  otherSize,
  type SegmentEntry,
  type StoreView,
  type UnreadableLines,
} from '../../../../application/store-verification/store-view.js';
import { isKeptUnderKey } from '../../../../domain/idempotency.js';
import type { Bucket, ReadObject } from '../bucket.js';
import { claimKey, markerKey, MAX_MARKER_BYTES } from '../keys.js';
import { dayOf, directoryOf, parseName } from '../segment-names.js';
import { isRemovalKey, parseRemoval } from '../stored-uploads/removal-marker.js';
import { mentions } from '../stored-uploads/line-reading.js';
import { isSharedMarkerKey, parseUploadMarker, pathsOf } from '../upload-marker.js';
import { readPlans } from './compaction-plans.js';
import { type KeyEntry, walkKeys } from './key-walk.js';

/** How many segments are read at once, to hide the store's latency. */
const SEGMENTS_AT_ONCE = 8;
const MAX_WHOLE_BYTES = MIB;
/** An object's age, as the store reports it, is assumed to be too high by at most this. */
const CLOCK_MS = 10_000;
const MAX_ROUNDS = 5;

/**
 * Verifies the contents of a bucket, on which services may be running, while the findings are iterated. Doesn't close
 * the bucket.
 *
 * @returns the findings. A segment or file that can't be read is a finding. Otherwise iterating them rejects with
 * errors of the bucket, and with NoStoreError if the bucket contains no store.
 */
export const verifyBucket = (bucket: Bucket, options: VerificationOptions = {}): StoreVerification =>
  new StoreVerification(() => openBucketStoreView(bucket), options);

async function openBucketStoreView(bucket: Bucket): Promise<StoreView> {
  for (const prefix of ['uploads/', 'files/']) {
    if ((await firstKey(bucket, prefix)) !== undefined) return new BucketStoreView(bucket);
  }
  throw new NoStoreError('the bucket', 'uploads/ and files/ are empty');
}

class BucketStoreView implements StoreView {
  readonly recoveredBy = 'a running service';
  readonly movesLines = true;
  private neighbours = { of: '', plans: [] as ReadonlySet<string>[], there: new Map<string, boolean>() };

  constructor(private readonly bucket: Bucket) {}

  segments(): AsyncIterable<SegmentEntry> {
    return walkKeys(this.bucket, SEGMENTS);
  }

  content(): AsyncIterable<Entry> {
    return walkKeys(this.bucket, CONTENT);
  }

  staging(): AsyncIterable<Entry> {
    return walkKeys(this.bucket, STAGING);
  }

  async *lines(onBytes: OnBytes): AsyncGenerator<SegmentLine | UnreadableLines> {
    const began = performance.now();
    const gone = new Set<string>();
    yield* this.linesOf(walkKeys(this.bucket, SEGMENTS), gone, onBytes);
    for (let round = 0; gone.size > 0 && round < MAX_ROUNDS; round++) {
      const directories = [...gone];
      gone.clear();
      // Lines of a missing segment that weren't removed are in the segment that replaced it. Either the listing of all
      // segments has found the replacement, or the replacement is younger than the listing.
      for (const directory of directories) yield* this.linesOf(this.youngerThan(began, directory), gone, onBytes);
    }
    for (const path of gone) yield { path, error: new Error('its segments are replaced faster than they can be read') };
  }

  async check(expected: ExpectedContent, onBytes: OnBytes): Promise<ContentProblem | undefined> {
    const pieces = await this.bucket.open(expected.path);
    if (!pieces) return ABSENT;
    const hash = createHash('sha256');
    let size = 0;
    for await (const piece of pieces) {
      hash.update(piece);
      size += piece.length;
      onBytes(piece.length);
    }
    return size === expected.size ? digestProblem(hash.digest('hex'), expected) : otherSize(size, expected);
  }

  /** Recovery restores no file in a bucket: the service writes a line only after the line's file. */
  isRestorable(): Promise<boolean> {
    return Promise.resolve(false);
  }

  /**
   * A marker of uploads exists from before their files are created until after their lines are written; a file may leave
   * a shared marker for one of its own. A marker of removals exists from before the lines are removed until after the
   * files are removed.
   */
  async publications(): Promise<(uploadId: string, contentPath: string) => Promise<boolean>> {
    const staged = new Set<string>();
    const removed = new Set<string>();
    const shared = new Map<string, string>();
    // Shared markers are read first: a file that leaves one has its own marker before.
    for await (const { path, size } of walkKeys(this.bucket, STAGING)) {
      if (size > MAX_MARKER_BYTES || !isSharedMarkerKey(path)) continue;
      for (const contentPath of filesIn(path, await this.bucket.read(path))) shared.set(contentPath, path);
    }
    for await (const { name, path, size } of walkKeys(this.bucket, STAGING)) {
      if (size > MAX_MARKER_BYTES) continue;
      staged.add(name);
      const removal = isRemovalKey(path) ? await this.bucket.read(path) : undefined;
      for (const { upload_id: uploadId } of (removal && parseRemoval(removal.bytes)) ?? []) removed.add(uploadId);
    }
    return async (uploadId, contentPath) => {
      if (removed.has(uploadId)) return true;
      // A file may have left the shared marker after the second listing.
      const isOwn = staged.has(uploadId) || shared.has(contentPath);
      const keys = [shared.get(contentPath), isOwn ? markerKey(uploadId) : undefined];
      for (const key of keys) if (key !== undefined && filesIn(key, await this.bucket.read(key)).includes(contentPath)) return true;
      return false;
    };
  }

  /** No segment of a bucket is appended to: each is written whole. */
  isOpen(): Promise<boolean> {
    return Promise.resolve(false);
  }

  async stays(line: SegmentLine): Promise<boolean> {
    const { segment, offset, end } = line;
    const { upload_id: uploadId } = members(line);
    if (typeof uploadId !== 'string') return true;
    const isThere = await mentions(this.bucket, segment, uploadId, { first: offset, last: end - 1 });
    return isThere ?? this.isMoved(segment, uploadId);
  }

  /**
   * The claim of an idempotency key is created before the upload's line is written, and removed at the earliest 25
   * hours after it was last written.
   */
  async isClaimAbsent(scope: string, receivedAt: Date): Promise<boolean> {
    if (!isKeptUnderKey(receivedAt, this.bucket.now)) return false;
    return (await this.bucket.read(claimKey(scope))) === undefined;
  }

  async relation(first: string, second: string): ReturnType<StoreView['relation']> {
    if (this.neighbours.of !== second) {
      // Both segments were read before. If compaction replaces one by the other, it empties its plan only after it has
      // removed the replaced one. So either the plan is found now, or a segment is missing.
      this.neighbours = { of: second, plans: await readPlans(this.bucket), there: new Map() };
    }
    if (this.neighbours.plans.some((plan) => plan.has(first) && plan.has(second))) return 'replaces';
    if (!(await this.isThere(first))) return 'second-only';
    return (await this.isThere(second)) ? 'both' : 'first-only';
  }

  private async isMoved(segment: string, uploadId: string): Promise<boolean> {
    const day = dayOf(segment);
    if (!day) return false;
    for await (const { key, size } of this.bucket.list(directoryOf(day))) {
      if (size > 0 && parseName(day, key).origin !== 'original' && (await mentions(this.bucket, key, uploadId))) return true;
    }
    return false;
  }

  private async isThere(segment: string): Promise<boolean> {
    const { there } = this.neighbours;
    const isThere = there.get(segment) ?? (await firstKey(this.bucket, segment)) === segment;
    there.set(segment, isThere);
    return isThere;
  }

  private async *youngerThan(began: number, directory: string): AsyncGenerator<KeyEntry> {
    for await (const entry of walkKeys(this.bucket, SEGMENTS, directory)) {
      if (entry.ageMs <= performance.now() - began + CLOCK_MS) yield entry;
    }
  }

  private async *linesOf(entries: AsyncIterable<KeyEntry>, gone: Set<string>, onBytes: OnBytes): AsyncGenerator<SegmentLine | UnreadableLines> {
    for await (const { path, pieces } of concurrently(withBytes(entries), SEGMENTS_AT_ONCE, (entry) => this.begin(entry))) {
      const splitter = new LineSplitter();
      try {
        for await (const piece of pieces) {
          onBytes(piece.length);
          for (const { offset, end, value } of splitter.add(piece)) {
            yield { segment: path, offset, end, value, isTorn: false, isRepairable: false };
          }
        }
        const { length: end, restLength } = splitter;
        if (restLength > 0) yield { segment: path, offset: end - restLength, end, value: undefined, isTorn: true, isRepairable: false };
      } catch (error) {
        if (error instanceof GoneError) gone.add(dirname(path));
        else yield { path, error };
      }
    }
  }

  /** Begins to read a segment. Never rejects: an error is thrown only when the pieces are iterated. */
  private async begin({ path, size }: KeyEntry): Promise<{ path: string; pieces: AsyncIterable<Buffer> }> {
    if (size > MAX_WHOLE_BYTES) return { path, pieces: this.pieces(path, size) };
    const read = this.bucket.read(path);
    await Promise.allSettled([read]);
    return { path, pieces: whole(read) };
  }

  /** Goes on after a break: a store may end a read that pauses for long, as this one does while files are compared. */
  private async *pieces(segment: string, size: number): AsyncGenerator<Buffer> {
    let position = 0;
    for (let brokeAt = -1; position < size; ) {
      const pieces = await this.bucket.open(segment, { first: position, last: size - 1 });
      if (!pieces) throw new GoneError();
      try {
        for await (const piece of pieces) {
          position += piece.length;
          yield Buffer.from(piece.buffer, piece.byteOffset, piece.length);
        }
        return;
      } catch (error) {
        if (brokeAt === position) throw error;
        brokeAt = position;
      }
    }
  }
}

class GoneError extends Error {}

/** The paths of the files that the marker of unfinished uploads names. */
function filesIn(key: string, found: ReadObject | undefined): readonly string[] {
  const marker = found && parseUploadMarker(key, found.bytes);
  return marker ? pathsOf(marker) : [];
}

async function* withBytes(entries: AsyncIterable<KeyEntry>): AsyncGenerator<KeyEntry> {
  for await (const entry of entries) if (entry.type === 'file' && entry.size > 0) yield entry;
}

async function* whole(read: ReturnType<Bucket['read']>): AsyncGenerator<Buffer> {
  const object = await read;
  if (!object) throw new GoneError();
  yield object.bytes;
}

async function firstKey(bucket: Bucket, prefix: string): Promise<string | undefined> {
  for await (const { key } of bucket.list(prefix)) return key;
  return undefined;
}
