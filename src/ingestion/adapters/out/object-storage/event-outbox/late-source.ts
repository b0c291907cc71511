import { encodeIndexLine } from '../../../../domain/layout.js';
import { timeOfUuid } from '../../../../../common/uuid.js';
import { MAX_EVENTS_BYTES } from '../../../../application/ports/event-outbox.port.js';
import type { Bucket, ListedObject } from '../bucket.js';
import { LATE_SEGMENTS } from '../keys.js';
import { readAhead } from '../read-ahead.js';
import { dayOf } from '../segment-names.js';
import { findLine } from '../stored-uploads/upload-search.js';
import { type BatchDraft, type EventSource, nextToRead } from './batch.js';
import type { CautiousClock } from './cautious-clock.js';
import { type Cursor, isConfirmed, isTimed, shortName } from './cursor.js';
import { ANNOUNCEMENT_AGE_MS, type LateSegment, parseLateSegment } from './late-segments.js';
import type { ObsoleteObjects } from './obsolete-objects.js';
import { ANNOUNCED_WITHIN_MS } from './segment-scan.js';
import type { Reading, UnconfirmedLineReader } from './unconfirmed-line-reader.js';

/**
 * The size of a segment isn't known from its announcement, and may be that of many long lines. With this estimate, at
 * most 16 announced segments are read at once.
 */
const ASSUMED_BYTES = MAX_EVENTS_BYTES / 16;

interface Announcement extends LateSegment {
  readonly key: string;
  readonly time: number;
  readonly isOld: boolean;
}

/**
 * The unconfirmed events of segments that were announced as late (`LateSegments`), in the order of the announcements.
 */
export class LateSource implements EventSource {
  private waiting: Announcement[] = [];
  private segments: ReadonlySet<string> = new Set();
  private readonly read = new Map<string, LateSegment>();

  constructor(
    private readonly bucket: Bucket,
    private readonly clock: CautiousClock,
    private readonly cursor: Cursor,
    private readonly reader: UnconfirmedLineReader,
    private readonly obsolete: ObsoleteObjects,
  ) {}

  get since(): number | undefined {
    return this.waiting[0]?.time;
  }

  isWaiting(segment: string): boolean {
    return this.segments.has(segment);
  }

  /**
   * Reads the listed announcements, which replace those of the last listing.
   *
   * @param isWhole whether all announcements of the bucket are listed. Only then does the cursor forget late segments.
   * @throws errors of the bucket.
   */
  async list(objects: readonly ListedObject[], isWhole: boolean): Promise<void> {
    const now = this.clock.time;
    const waiting: Announcement[] = [];
    const listed = objects.filter(({ key }) => !this.obsolete.has(key));
    await this.readContents(listed);
    for (const { key, ageMs } of listed) {
      const content = this.read.get(key);
      if (!content || (isConfirmed(this.cursor, content.segment) && !this.cursor.parts.has(content.segment))) {
        this.obsolete.add(key);
        continue;
      }
      const time = timeOfUuid(key.slice(LATE_SEGMENTS.length));
      // An announcement counts as old only if both its age in the listing and the time in its key say so, because the
      // time in a single answer of the store may be wrong.
      waiting.push({ ...content, key, time, isOld: Math.min(ageMs, now - time) > ANNOUNCEMENT_AGE_MS });
    }
    this.setWaiting(waiting);
    if (isWhole) for (const [short, until] of this.cursor.late) if (until < now) this.cursor.late.delete(short);
  }

  async fill(batch: BatchDraft): Promise<boolean> {
    const { waiting } = this;
    for (let at = 0; at < waiting.length; ) {
      if (batch.room === 0) return false;
      const announcements = nextToRead(waiting, at, batch, ({ upload_ids: ids }) => ({ events: ids.length, bytes: ASSUMED_BYTES }));
      const readings = await Promise.all(announcements.map(({ segment }) => this.reader.read(segment, Infinity, batch.room)));
      for (const [index, announcement] of announcements.entries()) {
        const reading = readings[index];
        if (reading && !(await this.add(batch, announcement, reading))) return false;
      }
      at += announcements.length;
    }
    return true;
  }

  private async add(batch: BatchDraft, announcement: Announcement, reading: Reading): Promise<boolean> {
    const { segment, isOld } = announcement;
    if (!reading.isGone) return this.reader.add(batch, segment, reading, () => { this.forget(announcement); });
    // The segment is missing: not written yet or never, merged by compaction, or removed together with its uploads.
    return isOld ? this.addByIds(batch, announcement) : true;
  }

  private async addByIds(batch: BatchDraft, announcement: Announcement): Promise<boolean> {
    const { key, upload_ids: ids } = announcement;
    for (let at = this.cursor.counts.get(key) ?? 0; at < ids.length; at++) {
      const found = await findLine(this.bucket, ids[at] ?? '');
      if (found && !batch.add({ type: 'stored', upload: found.upload }, (await encodeIndexLine(found.upload)).length)) return false;
      batch.onceConfirmed(() => { this.cursor.counts.set(key, at + 1); });
    }
    batch.onceConfirmed(() => { this.forget(announcement); });
    return true;
  }

  /** Ends an announcement. The cursor remembers its segment, which may also be found by name or be announced twice. */
  private forget({ key, segment }: Announcement): void {
    this.setWaiting(this.waiting.filter((each) => each.key !== key));
    this.read.delete(key);
    this.obsolete.add(key);
    this.cursor.counts.delete(key);
    const short = shortName(segment);
    const day = dayOf(segment);
    if (day && isTimed(day, segment)) this.cursor.positions[day.kind].confirmed.add(short);
    this.cursor.late.set(short, this.clock.time + ANNOUNCED_WITHIN_MS);
  }

  private setWaiting(waiting: Announcement[]): void {
    this.waiting = waiting;
    this.segments = new Set(waiting.map(({ segment }) => segment));
  }

  private async readContents(listed: readonly ListedObject[]): Promise<void> {
    const keys = new Set(listed.map(({ key }) => key));
    for (const key of this.read.keys()) if (!keys.has(key)) this.read.delete(key);
    for await (const [{ key }, object] of readAhead(this.bucket, listed.filter(({ key }) => !this.read.has(key)))) {
      const content = object && parseLateSegment(object.bytes);
      if (content) this.read.set(key, content);
    }
  }
}
