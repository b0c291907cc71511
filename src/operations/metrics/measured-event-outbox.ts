import { EventOutbox, type OutboxBatch, type OutboxEvent } from '../../ingestion/application/ports/event-outbox.port.js';
import type { Metrics } from './metrics.js';

/** Passes calls on to an outbox, and measures how old the oldest event is that this process has not delivered yet. */
export class MeasuredEventOutbox extends EventOutbox {
  constructor(
    private readonly outbox: EventOutbox,
    private readonly metrics: Metrics,
  ) {
    super();
  }

  override open(): Promise<void> {
    return this.outbox.open();
  }

  override async next(limit: number): Promise<OutboxBatch | undefined> {
    const batch = await this.outbox.next(limit);
    // A batch's first event counts as the oldest until the next call of `next`, even after the batch was confirmed,
    // because further undelivered events may follow.
    this.metrics.oldestEvent = batch?.events[0] && timeOf(batch.events[0]);
    return batch;
  }

  override wait(signal: AbortSignal): Promise<void> {
    return this.outbox.wait(signal);
  }

  override giveWay(): Promise<void> {
    return this.outbox.giveWay();
  }

  override close(): Promise<void> {
    return this.outbox.close();
  }
}

const timeOf = (event: OutboxEvent): Date => (event.type === 'stored' ? event.upload.receivedAt : event.removedAt);
