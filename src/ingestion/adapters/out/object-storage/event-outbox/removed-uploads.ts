import { z } from 'zod';
import { parseJson } from '../../../../../common/text.js';
import type { RemovedEvent } from '../../../../application/ports/event-outbox.port.js';
import { UPLOAD_KINDS } from '../../../../domain/upload.js';
import type { Bucket } from '../bucket.js';
import { REMOVED_UPLOADS } from '../keys.js';

const TIME = z.string().refine((text) => !Number.isNaN(Date.parse(text)));
const REMOVED = z.object({
  removed: z.array(z.object({ upload_id: z.string(), kind: z.enum(UPLOAD_KINDS), customer_id: z.string(), received_at: TIME.optional(), removed_at: TIME })),
});
export type RemovedUpload = Readonly<z.infer<typeof REMOVED>['removed'][number]>;

/**
 * Writes an object in `events/removed/`, from which the event outbox delivers an event for each removed upload. An
 * existing object stays unchanged: after a stall, a sweeper may have written the same removal, and the cursor may say
 * how many of its events were confirmed.
 *
 * @param id the id of the removal, a version 7 UUID.
 */
export async function writeRemoved(bucket: Bucket, id: string, removed: readonly RemovedUpload[]): Promise<void> {
  await bucket.create(REMOVED_UPLOADS + id, Buffer.from(JSON.stringify({ removed })));
}

/** The events in the bytes of an object that `writeRemoved` wrote; none if the bytes are those of anything else. */
export function parseRemoved(bytes: Buffer): RemovedEvent[] {
  const { data } = REMOVED.safeParse(parseJson(bytes));
  // Earlier versions of the service wrote no `received_at` for a removed upload.
  return (data?.removed ?? []).map(({ upload_id: uploadId, kind, customer_id: customerId, removed_at: removedAt, received_at: receivedAt = removedAt }) => ({
    type: 'removed',
    uploadId,
    kind,
    customerId,
    receivedAt: new Date(receivedAt),
    removedAt: new Date(removedAt),
  }));
}
