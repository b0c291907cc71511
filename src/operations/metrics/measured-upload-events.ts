import type { OnApplicationShutdown } from '@nestjs/common';
import { type UploadEvent, UploadEvents } from '../../ingestion/application/ports/upload-events.port.js';
import type { Metrics } from './metrics.js';
import type { Ownership } from './ownership.js';

/** Counts the deliveries to a receiver, and the events in those that succeeded. */
export class MeasuredUploadEvents extends UploadEvents implements OnApplicationShutdown {
  constructor(
    private readonly events: UploadEvents & Partial<OnApplicationShutdown>,
    private readonly metrics: Metrics,
    private readonly ownership: Ownership = 'owned',
  ) {
    super();
  }

  override async deliver(events: readonly UploadEvent[], signal: AbortSignal): Promise<void> {
    try {
      await this.events.deliver(events, signal);
    } catch (error) {
      this.metrics.eventDeliveries.inc({ outcome: 'failed' });
      throw error;
    }
    const removed = events.filter(({ type }) => type === 'load-data.upload.removed.v1').length;
    this.metrics.eventDeliveries.inc({ outcome: 'ok' });
    this.metrics.eventsDelivered.inc({ type: 'removed' }, removed);
    this.metrics.eventsDelivered.inc({ type: 'stored' }, events.length - removed);
  }

  async onApplicationShutdown(signal?: string): Promise<void> {
    if (this.ownership === 'owned') await this.events.onApplicationShutdown?.(signal);
  }
}
