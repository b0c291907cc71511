import { setTimeout as delay } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { EventOutbox, type OutboxBatch } from '../../../../application/ports/event-outbox.port.js';
import { OneAtATime } from '../../../../../common/one-at-a-time.js';
import { Wakeup } from '../../../../../common/wakeup.js';
import { storageFailure } from '../../../../application/storage-failure.js';
import type { StorageLogger } from '../../../../application/storage-logger.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../../domain/upload.js';
import { asJob } from '../begin-call.js';
import type { Bucket, ListedObject } from '../bucket.js';
import { CURSOR, EVENTS, LATE_SEGMENTS, REMOVED_UPLOADS } from '../keys.js';
import { BatchDraft, type EventSource } from './batch.js';
import { CautiousClock } from './cautious-clock.js';
import { type Cursor, cursorBytes, daysBetween, newCursor } from './cursor.js';
import { CursorLease, CursorLostError } from './cursor-lease.js';
import { OutboxPresence } from './late-segments.js';
import { LateSource } from './late-source.js';
import { ObsoleteObjects } from './obsolete-objects.js';
import { RemovedSource } from './removed-source.js';
import { AHEAD_MS, SegmentScan, SETTLED_MS, timedSegments } from './segment-scan.js';
import { UnconfirmedLineReader } from './unconfirmed-line-reader.js';

const POLL_EVERY_MS = 5_000;
/** The average pause between listings for new events. Listings that catch up with old events have no pause. */
const LISTING_PAUSE_MS = 1_000;
const LISTINGS_AT_ONCE = 20;
const MAX_LISTED = 1_000;

/**
 * The events of a bucket that the receiver hasn't confirmed yet. The index lines are the events, so an upload usually
 * costs no further request. `events/cursor` records which events were confirmed: those of segments whose names have
 * times before the watermark, unless announced, and those of the later segments that the cursor names. Segments that
 * can't be found by the time in their name are announced in `events/late/` (`LateSegments`), and removals of uploads
 * are written to `events/removed/` (`writeRemoved`).
 *
 * Usually one process at a time delivers events: the one that holds the cursor. If it crashes or stalls, another one
 * takes over within a minute. A stalled process may still deliver until it next tries to write the cursor.
 */
export class BucketEventOutbox extends EventOutbox {
  private readonly lease: CursorLease;
  private readonly clock: CautiousClock;
  private delivery: DeliveryState | undefined;
  private isUnconfirmed = false;
  private readonly news = new Wakeup();
  private triedAt = -Infinity;
  private nextListingAt = -Infinity;
  private readonly jobs = new OneAtATime();
  private closing: Promise<void> | undefined;

  constructor(
    private readonly bucket: Bucket,
    private readonly logger: StorageLogger = new Logger(BucketEventOutbox.name),
    private readonly listingPauseMs = LISTING_PAUSE_MS,
  ) {
    super();
    this.clock = new CautiousClock(bucket);
    this.lease = new CursorLease(bucket, async (isHeld) => {
      if (isHeld) await this.delivery?.renew();
      else await this.drop();
    });
  }

  override open(): Promise<void> {
    return this.begin().catch(storageFailure('The event outbox could not be opened.'));
  }

  override hasBegun(): Promise<boolean> {
    return new OutboxPresence(this.bucket).isBegun().catch(storageFailure('Checking for the event outbox failed.'));
  }

  override next(limit: number): Promise<OutboxBatch | undefined> {
    return this.jobs.run(() => this.nextNow(limit)).catch(storageFailure('The events could not be read.'));
  }

  override wait(signal: AbortSignal): Promise<void> {
    return this.news.sleep(POLL_EVERY_MS, signal);
  }

  override giveWay(): Promise<void> {
    return this.jobs.run(() => this.lease.offer());
  }

  /** Doesn't wait for `next`: the process may end sooner, and no other one could deliver for 40 s. */
  override close(): Promise<void> {
    const { delivery } = this;
    this.closing ??= this.lease.release().then(() => delivery?.obsolete.remove().catch(() => undefined));
    return this.closing;
  }

  /** Makes this process look for new events now, if it delivers events. Call it after storing or removing an upload. */
  wake(): void {
    if (this.delivery) this.news.wake();
  }

  private async begin(): Promise<void> {
    this.triedAt = -Infinity;
    for await (const { key } of this.bucket.list(CURSOR)) if (key === CURSOR) return;
    this.clock.note();
    // The cursor is read only to get the store's time again. The time in a single answer may be wrong; of two times,
    // `CautiousClock` uses the earlier one.
    await this.bucket.read(CURSOR);
    this.clock.note();
    const now = this.clock.time;
    const confirmed: Record<UploadKind, string[]> = { historical: [], nowcast: [] };
    for (const kind of UPLOAD_KINDS) {
      for (const day of daysBetween(kind, now - SETTLED_MS, now + AHEAD_MS)) {
        for await (const segment of timedSegments(this.bucket, day, now - SETTLED_MS, now + AHEAD_MS)) if (segment) confirmed[kind].push(segment.key);
      }
    }
    await this.bucket.create(CURSOR, cursorBytes(newCursor(now - SETTLED_MS, confirmed)));
  }

  private async nextNow(limit: number): Promise<OutboxBatch | undefined> {
    const delivery = await this.take();
    if (!delivery) return undefined;
    for (let mustList = false; ; ) {
      const hasListed = !this.isUnconfirmed && (await this.refresh(delivery, mustList));
      const batch = await asJob(() => delivery.collect(limit));
      if (batch.events.length > 0) {
        this.isUnconfirmed = true;
        return { events: batch.events, confirm: () => this.confirm(delivery, batch) };
      }
      this.isUnconfirmed = false;
      if (batch.steps === 0 && hasListed && !delivery.isBehind) return undefined;
      mustList = batch.steps === 0;
      batch.settle();
    }
  }

  private async take(): Promise<DeliveryState | undefined> {
    if (this.delivery && (await this.lease.keep())) return this.delivery;
    // The absolute difference is compared, because this machine's clock may have been set back.
    if (this.closing || Math.abs(Date.now() - this.triedAt) < POLL_EVERY_MS) return undefined;
    this.triedAt = Date.now();
    const cursor = await this.lease.take();
    this.clock.note();
    if (cursor) this.delivery = new DeliveryState(this.bucket, this.clock, cursor, this.logger);
    return this.delivery;
  }

  private async drop(): Promise<void> {
    const { delivery } = this;
    this.delivery = undefined;
    this.news.clear();
    this.isUnconfirmed = false;
    await delivery?.release();
  }

  private async refresh(delivery: DeliveryState, mustList: boolean): Promise<boolean> {
    const isDue = mustList || performance.now() - delivery.listedAt >= POLL_EVERY_MS;
    if (!isDue && !delivery.isDrained) return false;
    if (!delivery.isBehind) {
      const now = performance.now();
      this.nextListingAt = Math.max(this.nextListingAt, now - LISTINGS_AT_ONCE * this.listingPauseMs) + this.listingPauseMs;
      if (this.nextListingAt > now) await delay(this.nextListingAt - now, undefined, { ref: false });
    }
    this.news.clear();
    await delivery.list();
    return true;
  }

  private confirm(delivery: DeliveryState, batch: BatchDraft): Promise<void> {
    const confirming = this.jobs.run(async () => {
      if (delivery !== this.delivery) return;
      this.isUnconfirmed = false;
      batch.settle();
      try {
        await this.lease.write();
      } catch (error) {
        if (error instanceof CursorLostError) return;
        throw error;
      }
      await delivery.obsolete.remove();
    });
    return confirming.catch(storageFailure('The delivery of events could not be recorded.'));
  }
}

class DeliveryState {
  readonly obsolete: ObsoleteObjects;
  listedAt = -Infinity;
  private readonly scans: readonly SegmentScan[];
  private readonly late: LateSource;
  private readonly removed: RemovedSource;

  constructor(
    private readonly bucket: Bucket,
    private readonly clock: CautiousClock,
    cursor: Cursor,
    logger: StorageLogger,
  ) {
    const reader = new UnconfirmedLineReader(bucket, cursor);
    this.obsolete = new ObsoleteObjects(bucket);
    this.late = new LateSource(bucket, clock, cursor, reader, this.obsolete);
    this.scans = UPLOAD_KINDS.map((kind) => new SegmentScan(bucket, clock, kind, cursor, reader, (segment) => this.late.isWaiting(segment), logger));
    this.removed = new RemovedSource(bucket, cursor, this.obsolete);
  }

  /** Whether no listed event is left to deliver, except of announced segments: some may not be written yet. */
  get isDrained(): boolean {
    return this.scans.every(({ since }) => since === undefined) && this.removed.since === undefined;
  }

  get isBehind(): boolean {
    return this.scans.some(({ isBehind, since }) => isBehind && since === undefined);
  }

  async list(): Promise<void> {
    await this.obsolete.remove();
    this.listedAt = performance.now();
    const scans = this.scans.filter(({ isBehind, since }) => !isBehind || since === undefined);
    // Announcements are listed before segments. So if a listed segment was announced before it was written, its
    // announcement is already known (unless there are more than MAX_LISTED). The segment's events are then delivered by
    // `LateSource` only, and not a second time by `SegmentScan`.
    const { late, removed, isWhole } = await this.listObjects();
    this.clock.note();
    this.removed.list(removed);
    await this.late.list(late, isWhole);
    await Promise.all(scans.map((scan) => scan.list()));
  }

  private async listObjects(): Promise<{ late: ListedObject[]; removed: ListedObject[]; isWhole: boolean }> {
    const late: ListedObject[] = [];
    let removed: ListedObject[] = [];
    for await (const object of this.bucket.list(EVENTS)) {
      if (object.key.startsWith(LATE_SEGMENTS)) late.push(object);
      else if (object.key.startsWith(REMOVED_UPLOADS)) removed.push(object);
      if (late.length === MAX_LISTED) break;
      if (removed.length === MAX_LISTED) return { late, removed, isWhole: true };
    }
    if (late.length < MAX_LISTED) return { late, removed, isWhole: true };
    removed = [];
    for await (const object of this.bucket.list(REMOVED_UPLOADS)) if (removed.push(object) === MAX_LISTED) break;
    return { late, removed, isWhole: false };
  }

  async collect(limit: number): Promise<BatchDraft> {
    const batch = new BatchDraft(limit);
    const sources: EventSource[] = [...this.scans, this.late, this.removed];
    const waiting = sources.filter(({ since }) => since !== undefined).sort((one, other) => Number(one.since) - Number(other.since));
    for (const source of waiting) if (!(await source.fill(batch))) break;
    return batch;
  }

  async renew(): Promise<void> {
    await Promise.all(this.scans.map((scan) => scan.renew()));
  }

  async release(): Promise<void> {
    await Promise.all(this.scans.map((scan) => scan.release()));
  }
}
