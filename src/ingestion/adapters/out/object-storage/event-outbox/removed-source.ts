import { timeOfUuid } from '../../../../../common/uuid.js';
import type { RemovedEvent } from '../../../../application/ports/event-outbox.port.js';
import type { Bucket, ListedObject } from '../bucket.js';
import { REMOVED_UPLOADS } from '../keys.js';
import type { BatchDraft, EventSource } from './batch.js';
import type { Cursor } from './cursor.js';
import type { ObsoleteObjects } from './obsolete-objects.js';
import { parseRemoved } from './removed-uploads.js';

/** About how many bytes of a batch a removal takes. */
const EVENT_BYTES = 200;

/** The uploads that were removed, in the order of their removals. */
export class RemovedSource implements EventSource {
  private waiting: string[] = [];
  /** The events of the first object, which is read again and again while it is told in part. */
  private first: { readonly key: string; readonly events: readonly RemovedEvent[] } | undefined;

  constructor(
    private readonly bucket: Bucket,
    private readonly cursor: Cursor,
    private readonly obsolete: ObsoleteObjects,
  ) {}

  get since(): number | undefined {
    const [key] = this.waiting;
    return key === undefined ? undefined : timeOfUuid(key.slice(REMOVED_UPLOADS.length));
  }

  /** @param objects the removals that were listed. */
  list(objects: readonly ListedObject[]): void {
    this.waiting = objects.map(({ key }) => key).filter((key) => !this.obsolete.has(key));
  }

  async fill(batch: BatchDraft): Promise<boolean> {
    for (const key of this.waiting) {
      const events = await this.eventsOf(key);
      const told = this.cursor.counts.get(key) ?? 0;
      let count = told;
      for (const event of events.slice(told)) {
        if (!batch.add(event, EVENT_BYTES)) break;
        count += 1;
      }
      if (count < events.length) {
        if (count > told) batch.onceTold(() => { this.cursor.counts.set(key, count); });
        return false;
      }
      batch.onceTold(() => { this.forget(key); });
    }
    return true;
  }

  private async eventsOf(key: string): Promise<readonly RemovedEvent[]> {
    if (this.first?.key !== key) {
      const found = await this.bucket.read(key);
      this.first = { key, events: found ? parseRemoved(found.bytes) : [] };
    }
    return this.first.events;
  }

  private forget(key: string): void {
    this.waiting = this.waiting.filter((each) => each !== key);
    this.cursor.counts.delete(key);
    this.obsolete.add(key);
  }
}
