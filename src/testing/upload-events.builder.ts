import type { UploadEvent } from '../ingestion/application/ports/upload-events.port.js';
import { uploadEventOf } from '../ingestion/application/upload-event.js';
import { anUploadDraft, type UploadDraftBuilder } from './upload-draft.builder.js';

const SOURCE = 'http://127.0.0.1:3000';

/** Makes the event of a stored upload, which is that of the draft without a file. */
export async function anUploadEvent(draft: UploadDraftBuilder = anUploadDraft()): Promise<UploadEvent> {
  return uploadEventOf({ type: 'stored', upload: await draft.with({ bytes: null }).build().conclude(null) }, SOURCE);
}

/** Makes the events of `count` different stored uploads. */
export const someUploadEvents = (count: number): Promise<UploadEvent[]> => Promise.all(Array.from({ length: count }, () => anUploadEvent()));

/** Makes the event of a removed upload. */
export function aRemovalEvent(): UploadEvent {
  const { uploadId, kind } = anUploadDraft().build();
  return uploadEventOf({ type: 'removed', uploadId, kind, customerId: 'customer-1', receivedAt: new Date(), removedAt: new Date() }, SOURCE);
}
