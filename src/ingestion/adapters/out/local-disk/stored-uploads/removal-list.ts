import { isJsonObject, parseJson } from '../../../../../common/text.js';
import { Turns } from '../../../../../common/turns.js';
import { NEWLINE, rawLines } from '../../../../application/raw-lines.js';
import { idempotencyScope } from '../../../../domain/idempotency.js';
import { isContentOf, isLayoutPath, SEGMENTS } from '../../../../domain/layout-names.js';
import { hasValidTime, type Upload } from '../../../../domain/upload.js';
import { UNFINISHED_EXTENSION } from '../whole-file.js';

export const REMOVAL_EXTENSION = '.removal';
export const UNFINISHED_REMOVAL_EXTENSION = `${REMOVAL_EXTENSION}${UNFINISHED_EXTENSION}`;

export interface RemovedUpload {
  readonly uploadId: string;
  /** The customer's id. Missing in lists of an earlier version of the service, and if the index line has none. */
  readonly customerId?: string;
  /** When the upload was received (RFC 3339, UTC). Missing in old lists, and if the index line has no valid time. */
  readonly receivedAt?: string;
  readonly contentPath: string | null;
  readonly scope: string | null;
}

export interface RemovalHead {
  readonly segment: string;
  /** When the removal was decided: RFC 3339, UTC. */
  readonly removedAt: string;
}

/**
 * Uploads to be removed, all of one segment (file of index lines). Once the list is durable in `pending/`, recovery
 * completes the removal.
 */
export interface RemovalList extends RemovalHead {
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

/** Encodes JSON lines of a removal list. Its first line is the head, and each further line an upload. */
export const encodeRemovalLines = (lines: readonly (RemovalHead | RemovedUpload)[]): Buffer =>
  Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));

/**
 * Decodes a removal list; undefined if it is incomplete, or isn't a list of this store. Accepts only paths of the
 * store's layout, because recovery rewrites and removes the files that they name. Yields to other work.
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
    const upload = decodeRemovedUpload(line.bytes);
    if (!upload) return undefined;
    uploads.push(upload);
  }
  return { segment, removedAt: typeof removedAt === 'string' ? removedAt : new Date().toISOString(), uploads };
}

/**
 * Decodes the line of an upload; undefined if it isn't valid. Leaves out what only the event of the removal needs, if
 * that isn't valid: someone may have edited the index line.
 */
export function decodeRemovedUpload(line: Buffer): RemovedUpload | undefined {
  const value = parseJson(line);
  if (!isJsonObject(value)) return undefined;
  const { uploadId, customerId, receivedAt, contentPath, scope } = value;
  if (typeof uploadId !== 'string' || !(scope === null || typeof scope === 'string')) return undefined;
  if (contentPath !== null && !(typeof contentPath === 'string' && isContentOf(uploadId, contentPath))) return undefined;
  return { uploadId, contentPath, scope, ...(typeof customerId === 'string' && { customerId }), ...(typeof receivedAt === 'string' && { receivedAt }) };
}
