import { parseJson } from '../../../../../common/text.js';
import { Turns } from '../../../../../common/turns.js';
import { NEWLINE, rawLines } from '../../../../application/raw-lines.js';
import { idempotencyScope } from '../../../../domain/idempotency.js';
import { isContentOf, isLayoutPath, SEGMENTS } from '../../../../domain/layout-names.js';
import { hasValidTime, type Upload } from '../../../../domain/upload.js';

/** Suffix of the names of removal lists in `pending/`. */
export const REMOVAL_EXTENSION = '.removal';
const UPLOADS_AT_ONCE = 1_000;

/** An upload that is to be removed, as a removal list records it. */
export interface RemovedUpload {
  readonly uploadId: string;
  /**
   * The upload's customer. Undefined in a removal list of an earlier version of the service, and if the index line has
   * none.
   */
  readonly customerId?: string;
  /**
   * When the upload was received (RFC 3339, UTC). Undefined in a removal list of an earlier version of the service, and
   * if the index line has no valid time.
   */
  readonly receivedAt?: string;
  /** Path of the upload's file, relative to the store's root; null for an upload without a file. */
  readonly contentPath: string | null;
  /** The idempotency scope of the upload; null for an upload without an idempotency key. */
  readonly scope: string | null;
}

/**
 * A removal list: uploads to be removed, all of one segment (file of index lines). Once the list is durable as a file
 * in `pending/`, recovery completes the removal if the process crashes.
 */
export interface RemovalList {
  /** Path of the segment with the lines of these uploads, relative to the store's root. */
  readonly segment: string;
  /** When the removal was decided (RFC 3339, UTC). */
  readonly removedAt: string;
  readonly uploads: readonly RemovedUpload[];
}

/** Reduces an upload to the data that a removal list records. */
export const removedUpload = (upload: Upload) => ({
  uploadId: upload.uploadId,
  customerId: upload.customerId,
  ...(hasValidTime(upload) && { receivedAt: upload.receivedAt.toISOString() }),
  contentPath: upload.content?.path ?? null,
  scope: idempotencyScope(upload),
} satisfies RemovedUpload);

/** Encodes a removal list, piece by piece: one JSON line with the segment and the time, then one for each upload. */
export function* encodeRemovalList({ segment, removedAt, uploads }: RemovalList): Generator<Buffer> {
  yield encodeLines([{ segment, removedAt }]);
  for (let at = 0; at < uploads.length; at += UPLOADS_AT_ONCE) yield encodeLines(uploads.slice(at, at + UPLOADS_AT_ONCE));
}

const encodeLines = (lines: readonly object[]): Buffer => Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));

/**
 * Decodes a removal list. Resolves to undefined if its last line is incomplete, or it isn't a list of this store.
 * Accepts only paths of the store's layout, because recovery rewrites and removes the files that the paths name. A list
 * without a time gets the present time. Yields to other work of the process, because the list may be long.
 */
export async function decodeRemovalList(bytes: Buffer): Promise<RemovalList | undefined> {
  if (bytes.at(-1) !== NEWLINE) return undefined;
  const firstEnd = bytes.indexOf(NEWLINE) + 1;
  const first = parseJson(bytes.subarray(0, firstEnd)) ?? {};
  const { segment, removedAt } = first as { readonly segment?: unknown; readonly removedAt?: unknown };
  if (typeof segment !== 'string' || !isLayoutPath(segment, SEGMENTS)) return undefined;
  const uploads: RemovedUpload[] = [];
  const turns = new Turns();
  for (const line of rawLines(bytes.subarray(firstEnd))) {
    if (turns.isOver) await turns.next();
    const upload = parseJson(line.bytes);
    if (!isRemovedUpload(upload)) return undefined;
    uploads.push(upload);
  }
  return { segment, removedAt: typeof removedAt === 'string' ? removedAt : new Date().toISOString(), uploads };
}

function isRemovedUpload(value: unknown): value is RemovedUpload {
  if (typeof value !== 'object' || value === null) return false;
  const { uploadId, customerId, receivedAt, contentPath, scope } = value as Partial<Record<string, unknown>>;
  if (typeof uploadId !== 'string') return false;
  const isFileOfUpload = typeof contentPath === 'string' && isContentOf(uploadId, contentPath);
  const isEventValid = [customerId, receivedAt].every((member) => member === undefined || typeof member === 'string');
  return isEventValid && (contentPath === null || isFileOfUpload) && (scope === null || typeof scope === 'string');
}
