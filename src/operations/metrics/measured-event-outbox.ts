import { EventOutbox, type OutboxBatch, type OutboxEvent } from '../../ingestion/application/ports/event-outbox.port.js';
import type { Metrics } from './metrics.js';

/**
 * Notes when the oldest event happened that this process has not delivered yet, as far as it can be read. If none is
 * known when the outbox fails, notes the time of that failure, because an event may wait in the outbox unseen.
 */
export class MeasuredEventOutbox extends EventOutbox {
  constructor(
    private readonly outbox: EventOutbox,
    private readonly metrics: Metrics,
  ) {
    super();
  }

  override async open(): Promise<void> {
    await this.noteFailure(() => this.outbox.open());
    this.metrics.oldestEvent = undefined;
  }

  override hasBegun(): Promise<boolean> {
    return this.outbox.hasBegun();
  }

  override async next(limit: number): Promise<OutboxBatch | undefined> {
    const batch = await this.noteFailure(() => this.outbox.next(limit));
    // The first event of the batch counts as the oldest until the next call of `next`, even after the batch was
    // confirmed, because further undelivered events may follow.
    const times = [batch?.events[0] && timeOf(batch.events[0]), this.outbox.unreadableSince].filter((time) => time !== undefined);
    this.metrics.oldestEvent = times.length > 0 ? new Date(Math.min(...times.map(Number))) : undefined;
    return batch;
  }

  override get unreadableSince(): Date | undefined {
    return this.outbox.unreadableSince;
  }

  /**
   * Notes a failure, although the port forbids `wait` to fail: the delivery of events then ends, so `next` isn't called
   * again and can't note it.
   */
  override wait(signal: AbortSignal): Promise<void> {
    return this.noteFailure(() => this.outbox.wait(signal));
  }

  override giveWay(): Promise<void> {
    return this.outbox.giveWay();
  }

  override close(): Promise<void> {
    return this.outbox.close();
  }

  private async noteFailure<Result>(call: () => Promise<Result>): Promise<Result> {
    try {
      return await call();
    } catch (error) {
      this.metrics.oldestEvent ??= new Date();
      throw error;
    }
  }
}

const timeOf = (event: OutboxEvent): Date => (event.type === 'stored' ? event.upload.receivedAt : event.removedAt);
