import { describedUpload } from '../domain/layout.js';
import type { OutboxEvent } from './ports/event-outbox.port.js';
import type { UploadEvent } from './ports/upload-events.port.js';

/** Converts an event of the outbox to the CloudEvent that receivers get. */
export function uploadEventOf(event: OutboxEvent, source: string): UploadEvent {
  if (event.type === 'stored') {
    const data = describedUpload(event.upload);
    return {
      specversion: '1.0',
      type: 'load-data.upload.stored.v1',
      id: data.upload_id,
      source,
      subject: data.customer_id,
      time: data.received_at,
      datacontenttype: 'application/json',
      data,
    };
  }
  const { uploadId, kind, customerId, removedAt, receivedAt = removedAt } = event;
  return {
    specversion: '1.0',
    type: 'load-data.upload.removed.v1',
    id: `${uploadId}-removed`,
    source,
    subject: customerId,
    time: receivedAt.toISOString(),
    datacontenttype: 'application/json',
    data: { upload_id: uploadId, kind, customer_id: customerId },
  };
}
