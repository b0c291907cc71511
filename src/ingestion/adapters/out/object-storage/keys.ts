import { createHash } from 'node:crypto';

/**
 * The key of the segment (an object with index lines) that contains only one upload's line, in the directory of its
 * day.
 */
export const ownSegment = (directory: string, uploadId: string): string => `${directory}/${uploadId}.ndjson`;

/**
 * Key prefix of the markers. A marker is an object that names an unfinished upload with a file, or an unfinished
 * removal of uploads. After a crash, a sweeper completes or undoes the upload, or completes the removal.
 */
export const MARKERS = 'staging/';
/**
 * No marker is longer than this, in bytes. A longer object below MARKERS isn't a marker, and is left alone. A marker of
 * a removal names up to 1,000 uploads, and takes up to 2.5 KB for each.
 */
export const MAX_MARKER_BYTES = 4 * 1024 * 1024;
export const markerKey = (uploadId: string): string => `${MARKERS}${uploadId}`;

/**
 * Key prefix of the claims. A claim is an object that says which upload has an idempotency scope (kind, customer and
 * key).
 */
export const CLAIMS = 'idempotency/';
export const claimKey = (scope: string): string => `${CLAIMS}${createHash('sha256').update(scope).digest('hex')}`;

/**
 * The key of the object that says up to when index lines were compared with the claims, and which claims the lines of
 * the last 24 hours need.
 */
export const CLAIMS_COMPARED = 'claims-compared';

/**
 * Key prefix of the plan or hold of each day, for compaction, and of the object that decides which replica compacts
 * next.
 */
export const PLANS = 'compaction/';
export const COMPACTION_TURN = `${PLANS}turn`;
/** The key of the object that decides which replica removes expired uploads next. */
export const RETENTION_TURN = 'retention/turn';

/** Key prefix of the event outbox: its cursor, the announcements of late segments, and the lists of removed uploads. */
export const EVENTS = 'events/';
export const CURSOR = `${EVENTS}cursor`;
export const LATE_SEGMENTS = `${EVENTS}late/`;
export const REMOVED_UPLOADS = `${EVENTS}removed/`;

/** An empty object in place of a segment. While it exists, the segment can't be created. */
export const FENCE = Buffer.alloc(0);

/** The key of an object that is written to check whether the store accepts writes. */
export const HEALTH = 'health';
/**
 * The key at which health checks try to read, list and remove, to check whether the store permits that. Usually no
 * object has this key.
 */
export const HEALTH_RIGHTS = 'health-rights';
/** The key of the object that names the store whose uploads are being moved, or were moved, to this bucket. */
export const MOVE = 'move';
