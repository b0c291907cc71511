import { isJsonObject, parseJson } from '../../../../../common/text.js';
import type { RemovedEvent } from '../../../../application/ports/event-outbox.port.js';
import { kindOf } from '../../../../domain/layout.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../../domain/upload.js';
import type { RemovalHead, RemovedUpload } from '../stored-uploads/removal-list.js';

/**
 * Encodes the events of a removal as JSON lines. Leaves out uploads without a customer id, which removal lists of an
 * earlier version of the service contain.
 */
export async function* encodeRemovedUploads({ segment, removedAt }: RemovalHead, groups: AsyncIterable<readonly RemovedUpload[]>): AsyncGenerator<Buffer> {
  const kind = kindOf(segment);
  for await (const uploads of groups) {
    const known = uploads.filter(({ customerId }) => customerId !== undefined);
    const lines = known.map(({ uploadId, customerId, receivedAt }) =>
      JSON.stringify({ upload_id: uploadId, kind, customer_id: customerId, received_at: receivedAt, removed_at: removedAt }),
    );
    yield Buffer.from(lines.map((line) => `${line}\n`).join(''));
  }
}

/** Reads the event in a line of a file of removed uploads; undefined if the line isn't valid. */
export function decodeRemovedUpload(line: Buffer): RemovedEvent | undefined {
  const parsed = parseJson(line);
  if (!isJsonObject(parsed)) return undefined;
  const { upload_id: uploadId, kind, customer_id: customerId, received_at: received, removed_at: removed } = parsed;
  // `received_at` is missing if an earlier version wrote the file, or the index line had no valid time.
  const [receivedAt, removedAt] = [received ?? removed, removed].map((time) => new Date(String(time)));
  const isValid = typeof uploadId === 'string' && typeof customerId === 'string' && UPLOAD_KINDS.some((each) => each === kind) && isTime(receivedAt) && isTime(removedAt);
  return isValid ? { type: 'removed', uploadId, kind: kind as UploadKind, customerId, receivedAt, removedAt } : undefined;
}

const isTime = (date: Date | undefined): date is Date => date !== undefined && !Number.isNaN(date.getTime());
