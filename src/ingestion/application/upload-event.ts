import { describedUpload } from '../domain/layout.js';
import type { OutboxEvent } from './ports/event-outbox.port.js';
import type { UploadEvent } from './ports/upload-events.port.js';

/**
 * An event as receivers get it.
 *
 * @param source the service's base URL.
 */
export function uploadEventOf(event: OutboxEvent, source: string): UploadEvent {
  const always = { specversion: '1.0', source, datacontenttype: 'application/json' } as const;
  if (event.type === 'stored') {
    const data = describedUpload(event.upload);
    return { ...always, type: 'load-data.upload.stored.v1', id: data.upload_id, subject: data.customer_id, time: data.received_at, data };
  }
  const { uploadId, kind, customerId, removedAt } = event;
  return {
    ...always,
    type: 'load-data.upload.removed.v1',
    id: `${uploadId}-removed`,
    subject: customerId,
    time: removedAt.toISOString(),
    data: { upload_id: uploadId, kind, customer_id: customerId },
  };
}
