import { timeOfUuid } from '../../../../../common/uuid.js';
import type { RemovedEvent } from '../../../../application/ports/event-outbox.port.js';
import type { Bucket, ListedObject } from '../bucket.js';
import { REMOVED_UPLOADS } from '../keys.js';
import { type BatchDraft, type EventSource, nextToRead } from './batch.js';
import type { Cursor } from './cursor.js';
import type { ObsoleteObjects } from './obsolete-objects.js';
import { parseRemoved } from './removed-uploads.js';

const EVENT_BYTES = 200;
const LISTED_BYTES = 150;

/** The events of removed uploads that the receiver hasn't confirmed yet, in the order of the removals. */
export class RemovedSource implements EventSource {
  private waiting: readonly ListedObject[] = [];
  private partly: { readonly key: string; readonly events: readonly RemovedEvent[] } | undefined;

  constructor(
    private readonly bucket: Bucket,
    private readonly cursor: Cursor,
    private readonly obsolete: ObsoleteObjects,
  ) {}

  get since(): number | undefined {
    const [first] = this.waiting;
    return first && timeOfUuid(first.key.slice(REMOVED_UPLOADS.length));
  }

  /** Replaces the objects of `events/removed/` that were listed before by those of a new listing. */
  list(objects: readonly ListedObject[]): void {
    this.waiting = objects.filter(({ key }) => !this.obsolete.has(key));
  }

  async fill(batch: BatchDraft): Promise<boolean> {
    const { waiting } = this;
    for (let at = 0; at < waiting.length; ) {
      if (batch.room === 0) return false;
      const objects = nextToRead(waiting, at, batch, ({ size }) => ({ events: size / LISTED_BYTES, bytes: size }));
      const lists = await Promise.all(objects.map(({ key }) => this.eventsOf(key)));
      for (const [index, { key }] of objects.entries()) if (!this.add(batch, key, lists[index] ?? [])) return false;
      at += objects.length;
    }
    return true;
  }

  private add(batch: BatchDraft, key: string, events: readonly RemovedEvent[]): boolean {
    const confirmed = this.cursor.counts.get(key) ?? 0;
    let count = confirmed;
    for (const event of events.slice(confirmed)) {
      if (!batch.add(event, EVENT_BYTES)) break;
      count += 1;
    }
    if (count >= events.length) {
      batch.onceConfirmed(() => { this.forget(key); });
      return true;
    }
    this.partly = { key, events };
    if (count > confirmed) batch.onceConfirmed(() => { this.cursor.counts.set(key, count); });
    return false;
  }

  private async eventsOf(key: string): Promise<readonly RemovedEvent[]> {
    if (this.partly?.key === key) return this.partly.events;
    const found = await this.bucket.read(key);
    return found ? parseRemoved(found.bytes) : [];
  }

  private forget(key: string): void {
    this.waiting = this.waiting.filter((each) => each.key !== key);
    this.cursor.counts.delete(key);
    this.obsolete.add(key);
  }
}
