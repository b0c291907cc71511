import { Wakeup } from '../common/wakeup.js';
import { EventOutbox, MAX_EVENTS_BYTES, type OutboxBatch, type OutboxEvent } from '../ingestion/application/ports/event-outbox.port.js';
import { indexLine } from '../ingestion/domain/layout.js';
import type { Upload } from '../ingestion/domain/upload.js';

const MAX_WAIT_MS = 60_000;

/** The outbox of an `InMemoryFileStorage`, which keeps the unconfirmed events in memory. */
export class InMemoryEventOutbox extends EventOutbox {
  private waiting: OutboxEvent[] = [];
  private isOpen = false;
  private readonly news = new Wakeup();

  /**
   * @param checkHealth rejects while the storage is set to fail. `open`, `hasBegun`, `next` and `confirm` then reject
   * too.
   */
  constructor(private readonly checkHealth: () => Promise<void>) {
    super();
  }

  /** Adds the event of a stored upload. The storage must call this method for each stored upload. */
  stored(upload: Upload): void {
    this.add({ type: 'stored', upload });
  }

  /** Adds the event of a removed upload. The storage must call this method for each removed upload. */
  removed({ uploadId, kind, customerId, receivedAt }: Upload): void {
    this.waiting = this.waiting.filter((event) => event.type !== 'stored' || event.upload.uploadId !== uploadId);
    this.add({ type: 'removed', uploadId, kind, customerId, receivedAt, removedAt: new Date() });
  }

  override async open(): Promise<void> {
    await this.checkHealth();
    this.isOpen = true;
  }

  override async hasBegun(): Promise<boolean> {
    await this.checkHealth();
    return this.isOpen;
  }

  override async next(limit: number): Promise<OutboxBatch | undefined> {
    this.news.clear();
    await this.checkHealth();
    let bytes = 0;
    const events = this.waiting.slice(0, limit).filter((event, index) => {
      bytes += event.type === 'stored' ? Buffer.byteLength(indexLine(event.upload)) : 0;
      return index === 0 || bytes <= MAX_EVENTS_BYTES;
    });
    if (events.length === 0) return undefined;
    return {
      events,
      confirm: async () => {
        await this.checkHealth();
        this.waiting = this.waiting.filter((event) => !events.includes(event));
      },
    };
  }

  override wait(signal: AbortSignal): Promise<void> {
    return this.news.sleep(MAX_WAIT_MS, signal);
  }

  override close(): Promise<void> {
    return Promise.resolve();
  }

  private add(event: OutboxEvent): void {
    if (!this.isOpen) return;
    this.waiting.push(event);
    this.news.wake();
  }
}
