import { DAY_MS, MINUTE_MS } from '../../../../../common/durations.js';
import { MemoryBudget } from '../../../../../common/memory-budget.js';
import { OneAtATime } from '../../../../../common/one-at-a-time.js';
import { timeOfUuid } from '../../../../../common/uuid.js';
import type { FoundLine } from '../../../../application/found-line.js';
import { decodeIndexLine } from '../../../../application/line-decoding.js';
import type { LineMemory } from '../../../../application/ports/stored-uploads.port.js';
import { UPLOAD_ID } from '../../../../domain/layout-names.js';
import { hasValidTime, MAX_UPLOAD_DURATION_MS, UPLOAD_KINDS, type Upload } from '../../../../domain/upload.js';
import { asJob } from '../begin-call.js';
import type { Bucket, ByteRange, ListedObject } from '../bucket.js';
import { dateAt, type Day, dayOf, directoryOf, endOf, listNamed, NAME_TOLERANCE_MS, parseName, SHARED_APART_MS, slowPrefix, uploadIdIn } from '../segment-names.js';
import { firstPage, isFew, mayBeCompacted, targets } from './day-listing.js';
import { linesWith, readFound, SegmentGoneError } from './line-reading.js';
import { probe, WHOLE_BYTES } from './sorted-segment.js';

const CLOCKS_APART_MS = 15 * MINUTE_MS;
/**
 * How far the time in the name of a shared segment may be from the time in the id of an upload in the segment, if an
 * earlier version of the service wrote the segment.
 */
const ID_TOLERANCE_MS = 2 * NAME_TOLERANCE_MS;
const MAX_ROUNDS = 10;
const COMPACTION_MS = 3 * DAY_MS;
/** At first 32 segments are read at once, then 256: a name is usually within milliseconds of the time in the id. */
const FIRST_READS = 32;
const READS_AT_ONCE = 256;
const LATEST = Date.parse('9999-12-31');
/** The memory for long lines in searches whose caller gives no other memory, such as those of removals. */
const sharedMemory = new MemoryBudget();

/**
 * Finds the index line of an upload by the upload's id. Usually at most three requests follow each other.
 *
 * @param memory where memory for a long line is taken. Default: from a budget that such searches share, until the line
 * was decoded.
 * @returns undefined if no segment contains such a line, if only a segment with a foreign name does on a day of 1,000
 * objects or more, or if `uploadId` isn't the id of an upload.
 * @throws errors of the bucket and of `memory`; an Error if compaction moves lines during each of ten searches.
 */
export async function findLine(bucket: Bucket, uploadId: string, memory?: LineMemory): Promise<FoundLine | undefined> {
  const began = timeOfUuid(uploadId);
  if (!UPLOAD_ID.test(uploadId) || Number.isNaN(began) || began > LATEST) return undefined;
  const shared = sharedMemory.hold('answer');
  const search = new UploadSearch(bucket, uploadId, began, memory ?? shared);
  try {
    return await search.run();
  } finally {
    search.end();
    shared.release();
  }
}

class UploadSearch {
  private readonly days: readonly Day[];
  private readonly slowDays: readonly Day[];
  /** The searched segments, as `<key> <size>`: if a segment's size has changed, it was rewritten, and is read again. */
  private readonly searched = new Set<string>();
  /** How many segments have shown that compaction may have moved the line meanwhile. */
  private signsOfMoves = 0;
  private isFound = false;
  /** True once the search has ended: reads in progress then give back their memory, even if they find the line. */
  private isOver = false;
  private readonly longReads = new OneAtATime();

  constructor(
    private readonly bucket: Bucket,
    private readonly uploadId: string,
    private readonly began: number,
    private readonly memory: LineMemory,
  ) {
    this.days = daysAt([began - NAME_TOLERANCE_MS, began + NAME_TOLERANCE_MS]);
    const ended = began + MAX_UPLOAD_DURATION_MS;
    this.slowDays = daysAt([began - CLOCKS_APART_MS, began, ended, ended + CLOCKS_APART_MS]);
  }

  async run(): Promise<FoundLine | undefined> {
    const own = this.search(this.days.map((day) => ({ key: `${directoryOf(day)}${this.uploadId}.ndjson`, size: 0, ageMs: 0 })));
    // Until compaction, many uploads have a segment of their own. A listing costs twelve times as much as a read, so on
    // the current day the listings begin only if there is no such segment. On other days they begin at once, because
    // otherwise four requests would follow each other.
    if (!this.days.some((day) => mayBeCompacted(this.bucket, day)) && (await own)) return own;
    return asJob(() => this.elsewhere(own));
  }

  private async elsewhere(own: Promise<FoundLine | undefined>): Promise<FoundLine | undefined> {
    const listings = [
      this.days.map((day) => this.near(day)),
      this.days.map((day) => this.created(day)),
      this.slowDays.map((day) => this.slow(day)),
    ].map((lists) => Promise.all(lists));
    // The listings aren't awaited if the search in the own segment finds the line or rejects, so they need handlers.
    for (const listing of listings) listing.catch(() => undefined);
    return (await own) ?? (await firstFound(listings.map(async (listing) => this.search((await listing).flat())))) ?? this.everywhere();
  }

  /**
   * Compaction creates a segment before it removes those with the same lines. So the line may have moved if a listed
   * segment is gone, or if a listing has segments of compaction that weren't searched before. Then all segments are listed
   * and searched again, at most ten times in all. Segments that uploads create meanwhile don't matter: an acknowledged
   * line is never moved to one.
   */
  private async everywhere(): Promise<FoundLine | undefined> {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const { signsOfMoves } = this;
      const lists = [...this.slowDays.map((day) => this.slow(day, true)), ...this.days.map((day) => this.all(day))];
      const found = await this.search((await Promise.all(lists)).flat());
      if (found) return found;
      if (this.signsOfMoves === signsOfMoves) return undefined;
    }
    throw new Error('The segments are compacted faster than they can be read.');
  }

  private async slow(day: Day, all = false): Promise<ListedObject[]> {
    const segments: ListedObject[] = [];
    for await (const segment of this.bucket.list(slowPrefix(day))) {
      if (segment.size === 0) continue;
      if (uploadIdIn(segment.key) === this.uploadId || ((all || segment.size <= WHOLE_BYTES) && parseName(day, segment.key).origin === 'target')) segments.push(segment);
    }
    return segments;
  }

  private async near(day: Day): Promise<ListedObject[]> {
    return (await this.named(day, SHARED_APART_MS)).filter(({ key }) => parseName(day, key).origin === 'original');
  }

  private async created(day: Day): Promise<ListedObject[]> {
    if (!mayBeCompacted(this.bucket, day)) return [];
    // Until compaction is done, the day may have many segments, so only those that it has created are listed.
    if (this.bucket.storeTime < endOf(day) + COMPACTION_MS) return targets(this.bucket, day);
    const page = await firstPage(this.bucket, day);
    return page.isWhole ? page.segments.filter(({ key }) => parseName(day, key).origin !== 'original') : targets(this.bucket, day);
  }

  private async all(day: Day): Promise<ListedObject[]> {
    const page = await firstPage(this.bucket, day);
    if (page.isWhole) return isFew(page.segments) ? page.segments : page.segments.filter((segment) => this.mayHaveLine(day, segment, ID_TOLERANCE_MS));
    // Compaction creates a segment before removing the ones that it replaces. So a line that moves between the two
    // listings is in the second one.
    return [...(await this.named(day, ID_TOLERANCE_MS)), ...(await targets(this.bucket, day))];
  }

  private async named(day: Day, apartMs: number): Promise<ListedObject[]> {
    const segments = await listNamed(this.bucket, directoryOf(day), Math.max(0, this.began - apartMs), this.began + apartMs + 1);
    return segments.filter((segment) => this.mayHaveLine(day, segment, apartMs));
  }

  private mayHaveLine(day: Day, { key, size }: ListedObject, apartMs: number): boolean {
    const { origin, isSlow, time } = parseName(day, key);
    return size > 0 && !isSlow && (origin !== 'original' || Math.abs(time - this.began) <= apartMs);
  }

  /**
   * Searches near times first. Names that don't begin with a UUID, and times over a day after the id's, are nearest.
   */
  private async search(segments: readonly ListedObject[]): Promise<FoundLine | undefined> {
    const distance = ({ key }: ListedObject): number => {
      const time = timeOfUuid(key.slice(key.lastIndexOf('/') + 1));
      return Number.isNaN(time) || time > this.began + DAY_MS ? 0 : Math.abs(time - this.began);
    };
    const rest = segments
      .filter(({ key, size }) => !this.searched.has(`${key} ${size}`))
      .sort((one, other) => distance(one) - distance(other));
    for (let count = FIRST_READS; rest.length > 0 && !this.isFound; count = READS_AT_ONCE) {
      const found = await Promise.all(rest.splice(0, count).map((segment) => this.searchIn(segment)));
      const line = found.find((each) => each !== undefined);
      if (line) {
        this.isFound = true;
        return line;
      }
    }
    return undefined;
  }

  end(): void {
    this.isOver = true;
  }

  private keepsMemory(): boolean {
    return this.isFound && !this.isOver;
  }

  private async searchIn(segment: ListedObject): Promise<FoundLine | undefined> {
    const { key, size } = segment;
    this.searched.add(`${key} ${size}`);
    const day = dayOf(key);
    const name = day && parseName(day, key);
    const isSorted = name?.origin === 'target' && !name.isSlow;
    if (name?.origin !== 'original') this.signsOfMoves += 1;
    try {
      const range = isSorted && size > WHOLE_BYTES ? await this.region(segment) : undefined;
      for await (const line of linesWith(this.bucket, key, this.uploadId, range)) {
        const upload = await (line.bytes ? decodeIndexLine(line.bytes) : this.readLong(key, line.range));
        if (upload && this.isWanted(upload)) return { upload, segment: key };
      }
    } catch (error) {
      if (!(error instanceof SegmentGoneError)) throw error;
      // On a day that isn't compacted yet, the segment was removed with its uploads.
      if (size > 0 && (!day || mayBeCompacted(this.bucket, day))) this.signsOfMoves += 1;
    }
    return undefined;
  }

  /** One long line is read at a time, so that none of those still waiting is read once the wanted one is found. */
  private readLong(key: string, range: ByteRange): Promise<Upload | undefined> {
    return this.longReads.run(async () => {
      if (this.isFound || this.isOver) return undefined;
      const length = range.last + 1 - range.first;
      await this.memory.take(length);
      try {
        const upload = await readFound(this.bucket, key, this.uploadId, range);
        this.isFound = upload !== undefined && this.isWanted(upload);
        return upload;
      } finally {
        if (!this.keepsMemory()) this.memory.giveBack(length);
      }
    });
  }

  private isWanted(upload: Upload): boolean {
    return upload.uploadId === this.uploadId && hasValidTime(upload);
  }

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

function firstFound(searches: readonly Promise<FoundLine | undefined>[]): Promise<FoundLine | undefined> {
  return new Promise((resolve, reject) => {
    for (const search of searches) search.then((line) => { if (line) resolve(line); }, reject);
    Promise.all(searches).then(() => { resolve(undefined); }, reject);
  });
}

const daysAt = (times: readonly number[]): Day[] =>
  [...new Set(times.map((time) => dateAt(Math.max(0, time))))].flatMap((date) => UPLOAD_KINDS.map((kind) => ({ kind, date })));
