import type { UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { isKeptUnderKey } from '../../../domain/idempotency.js';
import type { SelfCheckingDatabase } from './self-checking-database.js';

/** An upload and its idempotency scope, under which repeated requests find the upload. */
export interface KeyedUpload extends Omit<UploadReceipt, 'replayed'> {
  readonly scope: string;
  /** `requestDigest` of the upload. */
  readonly request: string;
  readonly receivedAt: Date;
}

/** The part of an upload that is needed to answer a repeated request. */
export interface IndexedUpload {
  readonly receipt: UploadReceipt;
  /** `requestDigest` of the upload. */
  readonly request: string;
}

/**
 * Stands for the length of a segment that still accepts lines. The index may have the keys of only some of these lines.
 */
export const OPEN = -1;

/** A segment, as a database records it: either still open, or with its final length. */
export interface ListedSegment {
  /** Path of the segment, relative to the store's root. */
  readonly path: string;
  /** The length in bytes; `OPEN` while the segment accepts lines. */
  readonly length: number;
}

/** What a database keeps of an upload. */
interface Row {
  readonly request: string;
  /** Milliseconds since 1970. */
  readonly receivedAt: number;
  readonly uploadId: string;
  readonly size: number | null;
  readonly sha256: string | null;
}

/** An entry of the database of a day. */
export interface DayEntry {
  /** A UTC day, `YYYY-MM-DD`. */
  readonly day: string;
  readonly name: string;
  /** The row of an upload, or the length of a segment. In the database, null stands for a removed upload or segment. */
  readonly value: Row | number;
}

const uploadName = (scope: string): string => `upload\n${scope}`;
const segmentName = (path: string): string => `segment\n${path}`;
/** Name of the entry with the number of segments that a database lists. */
const SEGMENT_COUNT = 'segments';

/** The entry of an upload in the database of a day. */
export const uploadEntry = (day: string, { scope, request, receivedAt, uploadId, content }: KeyedUpload): DayEntry => ({
  day,
  name: uploadName(scope),
  value: { request, receivedAt: receivedAt.getTime(), uploadId, size: content?.size ?? null, sha256: content?.sha256 ?? null },
});

/** The entry of a segment in the database of its day. */
export const segmentEntry = ({ path, length }: ListedSegment): DayEntry => ({
  day: /\/date=([^/]*)\//.exec(path)?.[1] ?? '',
  name: segmentName(path),
  value: length,
});

const rowOf = (database: SelfCheckingDatabase, scope: string): Row | undefined =>
  (database.get(uploadName(scope)) as Row | null | undefined) ?? undefined;

/**
 * The upload that a database has under a scope, if the upload is still kept there.
 *
 * @throws DamagedDatabaseError
 */
export function keptUpload(database: SelfCheckingDatabase, scope: string): IndexedUpload | undefined {
  const row = rowOf(database, scope);
  return row && isKeptUnderKey(new Date(row.receivedAt)) ? { receipt: receiptOf(row), request: row.request } : undefined;
}

/**
 * The length with which a database lists a segment; null if the segment was removed, undefined if it was never listed.
 *
 * @throws DamagedDatabaseError
 */
export const listedLength = (database: SelfCheckingDatabase, path: string): number | null | undefined =>
  database.get(segmentName(path)) as number | null | undefined;

/**
 * The number of segments that a database lists.
 *
 * @throws DamagedDatabaseError
 */
export const segmentCount = (database: SelfCheckingDatabase): number => Number(database.get(SEGMENT_COUNT) ?? 0);

/**
 * Puts entries into the database of their day. Another length of a segment replaces the present one. Of two uploads
 * under one key, the earlier one is kept, unless its key had expired when the later one was complete.
 *
 * @throws DamagedDatabaseError
 */
export function putEntries(database: SelfCheckingDatabase, entries: readonly DayEntry[]): void {
  if (entries.length === 0) return;
  const values = entries.map(({ name, value }) => [name, value] as const);
  const newSegments = entries.filter(({ name, value }) => typeof value === 'number' && (database.get(name) ?? undefined) === undefined).length;
  const count = segmentCount(database) + newSegments;
  database.putAll(newSegments > 0 ? [...values, [SEGMENT_COUNT, count]] : values, replaces);
}

/** Whether a value replaces the present value with the same name in a database (see `putEntries`). */
function replaces(value: unknown, present: unknown): boolean {
  if (present === null) return true;
  if (typeof value === 'number') return value !== present;
  const { receivedAt } = value as Row;
  const first = (present as Row).receivedAt;
  return receivedAt < first || !isKeptUnderKey(new Date(first), receivedAt);
}

/**
 * Removes uploads from a database, unless another upload has taken their scope.
 *
 * @throws DamagedDatabaseError
 */
export function eraseUploads(database: SelfCheckingDatabase, uploads: readonly Pick<KeyedUpload, 'scope' | 'uploadId'>[]): void {
  const present = uploads.filter(({ scope, uploadId }) => rowOf(database, scope)?.uploadId === uploadId);
  database.erase(present.map(({ scope }) => uploadName(scope)));
}

/**
 * Records that lines were removed from a segment.
 *
 * @param segment the segment, with its new length; 0 if the segment was removed.
 * @throws DamagedDatabaseError
 */
export function changeSegment(database: SelfCheckingDatabase, { path, length }: ListedSegment): void {
  const listed = listedLength(database, path);
  // If a segment is listed as open, some of its keys may not be in the index yet. They are added later, together with
  // its final length.
  if (typeof listed !== 'number' || (listed === OPEN && length > 0)) return;
  const count: (readonly [string, unknown])[] = length === 0 ? [[SEGMENT_COUNT, segmentCount(database) - 1]] : [];
  database.putAll([[segmentName(path), length || null], ...count], () => true);
}

const receiptOf = ({ uploadId, size, sha256 }: Row): UploadReceipt => ({
  uploadId,
  content: size === null || sha256 === null ? null : { size, sha256 },
  replayed: true,
});
