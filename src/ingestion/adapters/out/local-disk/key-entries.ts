import { basename, dirname } from 'node:path';
import type { UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { isKeptUnderKey } from '../../../domain/idempotency.js';
import { dayIn } from '../../../domain/layout-names.js';
import type { SelfCheckingDatabase } from './self-checking-database.js';

export interface KeyedUpload extends Omit<UploadReceipt, 'replayed'> {
  readonly scope: string;
  /** The `requestDigest` of the upload, which distinguishes a repeat from a request with other data. */
  readonly request: string;
  readonly receivedAt: Date;
}

export interface IndexedUpload {
  readonly receipt: UploadReceipt;
  readonly request: string;
}

/** Listed in place of a segment's length while keys of some of the segment's lines may be missing from the database. */
export const OPEN = -1;

export interface ListedSegment {
  /** The path of the segment, relative to the store's root. */
  readonly path: string;
  /** The length of the segment in bytes, or `OPEN`. */
  readonly length: number;
}

interface Row {
  readonly request: string;
  /** When the upload was received, in milliseconds since 1970. */
  readonly receivedAt: number;
  readonly uploadId: string;
  readonly size: number | null;
  readonly sha256: string | null;
}

export interface DayEntry {
  /** The UTC day of the entry's database, `YYYY-MM-DD`. */
  readonly day: string;
  readonly name: string;
  /** The record of an upload, or the length of a segment (in bytes, or `OPEN`). */
  readonly value: Row | number;
}

const uploadName = (scope: string): string => `upload\n${scope}`;
const segmentName = (path: string): string => `segment\n${path}`;
const SEGMENT_COUNT = 'segments';

/** The entry of an upload for the database of idempotency keys of a day. */
export const uploadEntry = (day: string, { scope, request, receivedAt, uploadId, content }: KeyedUpload): DayEntry => ({
  day,
  name: uploadName(scope),
  value: { request, receivedAt: receivedAt.getTime(), uploadId, size: content?.size ?? null, sha256: content?.sha256 ?? null },
});

/** The entry of a segment for the database of idempotency keys of the segment's day. */
export const segmentEntry = ({ path, length }: ListedSegment): DayEntry => ({
  day: dayIn(basename(dirname(path))) ?? '',
  name: segmentName(path),
  value: length,
});

const rowOf = (database: SelfCheckingDatabase, scope: string): Row | undefined =>
  (database.get(uploadName(scope)) as Row | null | undefined) ?? undefined;

/**
 * The upload that a database stores under an idempotency scope, if it was received in the last 24 hours.
 *
 * @throws DamagedDatabaseError
 */
export function keptUpload(database: SelfCheckingDatabase, scope: string): IndexedUpload | undefined {
  const row = rowOf(database, scope);
  return row && isKeptUnderKey(new Date(row.receivedAt)) ? { receipt: receiptOf(row), request: row.request } : undefined;
}

/**
 * The length that a database lists for a segment: in bytes, or `OPEN`. Null if the segment's last line was removed,
 * undefined if the segment was never listed.
 *
 * @throws DamagedDatabaseError
 */
export const listedLength = (database: SelfCheckingDatabase, path: string): number | null | undefined =>
  database.get(segmentName(path)) as number | null | undefined;

/**
 * The number of segments that a database lists, without those whose last line was removed.
 *
 * @throws DamagedDatabaseError
 */
export const segmentCount = (database: SelfCheckingDatabase): number => Number(database.get(SEGMENT_COUNT) ?? 0);

/**
 * Puts entries of one day into the database of that day. Of the uploads of a scope within 24 hours, the earliest stays.
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

function replaces(value: unknown, present: unknown): boolean {
  if (present === null) return true;
  if (typeof value === 'number') return value !== present;
  const { receivedAt } = value as Row;
  const first = (present as Row).receivedAt;
  return receivedAt < first || !isKeptUnderKey(new Date(first), receivedAt);
}

/**
 * Removes uploads from a database, except where another upload is stored under their scope.
 *
 * @throws DamagedDatabaseError
 */
export function eraseUploads(database: SelfCheckingDatabase, uploads: readonly Pick<KeyedUpload, 'scope' | 'uploadId'>[]): void {
  const present = uploads.filter(({ scope, uploadId }) => rowOf(database, scope)?.uploadId === uploadId);
  database.erase(present.map(({ scope }) => uploadName(scope)));
}

/**
 * Records that lines were removed from a segment, unless it isn't listed, or is listed as `OPEN` and still has lines.
 *
 * @param segment the segment, with its new length in bytes; 0 if it has no more lines.
 * @throws DamagedDatabaseError
 */
export function changeSegment(database: SelfCheckingDatabase, { path, length }: ListedSegment): void {
  const listed = listedLength(database, path);
  // A segment listed as `OPEN` stays so while it has lines: some of its keys may not be in the database yet.
  if (typeof listed !== 'number' || (listed === OPEN && length > 0)) return;
  const count: (readonly [string, unknown])[] = length === 0 ? [[SEGMENT_COUNT, segmentCount(database) - 1]] : [];
  database.putAll([[segmentName(path), length || null], ...count], () => true);
}

const receiptOf = ({ uploadId, size, sha256 }: Row): UploadReceipt => ({
  uploadId,
  content: size === null || sha256 === null ? null : { size, sha256 },
  replayed: true,
});
