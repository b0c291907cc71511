import { timeOfUuid } from '../../../../../common/uuid.js';
import { UPLOAD_ID } from '../../../../domain/layout-names.js';
import { MAX_UPLOAD_DURATION_MS, UPLOAD_KINDS, type Upload } from '../../../../domain/upload.js';
import type { Bucket, ByteRange, ListedObject } from '../bucket.js';
import { dateAt, type Day, dayOf, directoryOf, listNamed, NAME_TOLERANCE_MS, parseName, slowPrefix, uploadIdIn } from '../segment-names.js';
import { firstPage, isFew, mayBeCompacted, targets } from './day-listing.js';
import { linesWith, SegmentGoneError } from './segment-lines.js';
import { probe, WHOLE_BYTES } from './sorted-segment.js';

const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;
/** How far the clocks of replicas and of the store may be apart, in milliseconds. */
const CLOCKS_APART_MS = 15 * 60_000;
/**
 * How far the time in an upload's id and the time in the name of the segment that it shares with others are apart at
 * most, in milliseconds.
 */
const ID_TOLERANCE_MS = 2 * NAME_TOLERANCE_MS;
/**
 * How far the time in a segment's name may be from the time of the wanted upload's id, in milliseconds. SOON is tried
 * first, because a line is usually written at once. WIDE covers all names that the segment of the upload's line can
 * have.
 */
const SOON: Window = { before: 5_000, after: 5_000 };
const WIDE: Window = { before: ID_TOLERANCE_MS, after: ID_TOLERANCE_MS };
const MOST_ROUNDS = 10;
const READS_AT_ONCE = 32;
const LATEST = Date.parse('9999-12-31');

/** An upload, and the key of the segment that contains its line. */
export interface FoundLine {
  readonly upload: Upload;
  readonly segment: string;
}

/**
 * Finds the index line of an upload by the upload's id, in most cases with at most three requests that wait for each
 * other: one that lists segments, one that reads lines, and one more for a segment that compaction created.
 *
 * @returns undefined if no segment contains such a line. Throws errors of the bucket.
 */
export async function findLine(bucket: Bucket, uploadId: string): Promise<FoundLine | undefined> {
  const began = timeOfUuid(uploadId);
  if (!UPLOAD_ID.test(uploadId) || Number.isNaN(began) || began > LATEST) return undefined;
  return new UploadSearch(bucket, uploadId, began).run();
}

/**
 * Selects the segments of a large day to look at: those with a time in their name at most `before` earlier and at most
 * `after` later than the time of the wanted upload's id. Both in milliseconds.
 */
interface Window {
  readonly before: number;
  readonly after: number;
}

class UploadSearch {
  /** The days whose segments may contain the wanted upload's line, unless the upload was slow. */
  private readonly days: readonly Day[];
  /** The days whose segments may contain the wanted upload's line if the upload was slow. */
  private readonly slowDays: readonly Day[];
  /**
   * The segments that were read, as `<key> <size>`. A segment that has another size now was rewritten in the meantime,
   * and is read again.
   */
  private readonly searched = new Set<string>();
  /** How many segments from listings were gone when they were to be read. */
  private missed = 0;

  constructor(
    private readonly bucket: Bucket,
    private readonly uploadId: string,
    private readonly began: number,
  ) {
    this.days = daysAt([began - NAME_TOLERANCE_MS, began + NAME_TOLERANCE_MS]);
    const ended = began + MAX_UPLOAD_DURATION_MS;
    this.slowDays = daysAt([began - CLOCKS_APART_MS, began, ended, ended + CLOCKS_APART_MS]);
  }

  async run(): Promise<FoundLine | undefined> {
    const own = this.search(this.days.map((day) => ({ key: `${directoryOf(day)}${this.uploadId}.ndjson`, size: 0, ageMs: 0 })));
    const listed = Promise.all([...this.slowDays.map((day) => this.slow(day)), ...this.days.map((day) => this.near(day, SOON))]);
    // `listed` isn't awaited if `own` finds the line or rejects, so a rejection of `listed` needs a handler.
    listed.catch(() => undefined);
    return (await own) ?? (await this.search((await listed).flat())) ?? this.everywhere();
  }

  /**
   * Searches all segments that may contain the line, repeatedly if need be. Compaction creates a segment before it
   * removes those with the same lines. So if a listed segment is gone, or a listing has segments that weren't searched
   * before, the line may have moved, and the search goes on.
   */
  private async everywhere(): Promise<FoundLine | undefined> {
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const { missed } = this;
      const before = this.searched.size;
      const lists = [...this.slowDays.map((day) => this.slow(day, true)), ...this.days.map((day) => this.near(day, WIDE, true))];
      const found = await this.search((await Promise.all(lists)).flat());
      if (found) return found;
      if (this.missed === missed && this.searched.size === before) return undefined;
    }
    throw new Error('The segments are compacted faster than they can be read.');
  }

  /**
   * The segments of a day that may contain the line if the upload was slow: the upload's own one, and with `all` also
   * those that compaction created from segments of slow uploads.
   */
  private async slow(day: Day, all = false): Promise<ListedObject[]> {
    const segments: ListedObject[] = [];
    for await (const segment of this.bucket.list(slowPrefix(day))) {
      if (segment.size === 0) continue;
      if (uploadIdIn(segment.key) === this.uploadId || (all && parseName(day, segment.key).origin === 'target')) segments.push(segment);
    }
    return segments;
  }

  /**
   * The segments of a day that may contain the line, unless the upload was slow; with `all`, also those with unknown
   * names.
   */
  private async near(day: Day, window: Window, all = false): Promise<ListedObject[]> {
    const isNear = (time: number): boolean => time >= this.began - window.before && time <= this.began + window.after;
    const windowed = () => listNamed(this.bucket, directoryOf(day), Math.max(0, this.began - window.before), this.began + window.after + 1);
    const wanted = ({ key, size }: ListedObject): boolean => {
      const { origin, isSlow, time } = parseName(day, key);
      return size > 0 && !isSlow && (origin === 'original' ? isNear(time) : all || origin === 'target');
    };
    const isCompacted = mayBeCompacted(day);
    if (!isCompacted && !all) return (await windowed()).filter(wanted);
    const page = await firstPage(this.bucket, day);
    if (page.isWhole) return all && isFew(page.segments) ? page.segments : page.segments.filter(wanted);
    // Segments that compaction created are listed after the others: they exist before the segments that they replace
    // are gone, so a line that moves meanwhile isn't missed.
    return [...(await windowed()), ...(await targets(this.bucket, day))].filter(wanted);
  }

  /** Searches segments for the line, first those whose names have times nearest to the time of the upload's id. */
  private async search(segments: readonly ListedObject[]): Promise<FoundLine | undefined> {
    const distance = ({ key }: ListedObject): number => {
      const time = timeOfUuid(key.slice(key.lastIndexOf('/') + 1));
      return Number.isNaN(time) || time > this.began + DAY_MS ? 0 : Math.abs(time - this.began);
    };
    const rest = segments
      .filter(({ key, size }) => !this.searched.has(`${key} ${size}`))
      .sort((one, other) => distance(one) - distance(other));
    while (rest.length > 0) {
      const found = await Promise.all(rest.splice(0, READS_AT_ONCE).map((segment) => this.searchIn(segment)));
      const line = found.find((each) => each !== undefined);
      if (line) return line;
    }
    return undefined;
  }

  private async searchIn(segment: ListedObject): Promise<FoundLine | undefined> {
    const { key, size } = segment;
    this.searched.add(`${key} ${size}`);
    const day = dayOf(key);
    const isSorted = day && parseName(day, key).origin === 'target' && !parseName(day, key).isSlow;
    try {
      const range = isSorted && size > WHOLE_BYTES ? await this.region(segment) : undefined;
      for await (const { upload } of linesWith(this.bucket, key, this.uploadId, range)) {
        if (upload.uploadId === this.uploadId) return { upload, segment: key };
      }
    } catch (error) {
      if (!(error instanceof SegmentGoneError)) throw error;
      if (size > 0) this.missed += 1;
    }
    return undefined;
  }

  /** For a long segment that compaction created: the range of bytes in which the upload's line must be. */
  private async region(segment: ListedObject): Promise<ByteRange> {
    let first = 0;
    let end = segment.size;
    for (const { offset, upload } of await probe(this.bucket, segment)) {
      const apart = timeOfUuid(upload.uploadId) - this.began;
      if (apart < -2 * ID_TOLERANCE_MS) first = Math.max(first, offset);
      if (apart > 2 * ID_TOLERANCE_MS) end = Math.min(end, offset);
    }
    return { first, last: Math.max(first, end - 1) };
  }
}

const daysAt = (times: readonly number[]): Day[] =>
  [...new Set(times.map((time) => dateAt(Math.max(0, time))))].flatMap((date) => UPLOAD_KINDS.map((kind) => ({ kind, date })));
