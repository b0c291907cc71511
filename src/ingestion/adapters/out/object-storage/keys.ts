import { createHash } from 'node:crypto';
import { MIB } from '../../../../common/sizes.js';

/** The key of a segment, an object with index lines. Its name is an upload's id, or another UUID if uploads share it. */
export const segmentKey = (directory: string, name: string): string => `${directory}/${name}.ndjson`;

/**
 * Key prefix of the markers. A marker names unfinished uploads with files, or unfinished removals of uploads, so that a
 * sweeper can settle them after a crash.
 */
export const MARKERS = 'staging/';
/**
 * Longer objects below MARKERS are left alone. The marker of a removal names up to 1,000 uploads, and takes up to 2.5
 * KB for each.
 */
export const MAX_MARKER_BYTES = 4 * MIB;
export const markerKey = (uploadId: string): string => `${MARKERS}${uploadId}`;

export const CLAIMS = 'idempotency/';
export const claimKey = (scope: string): string => `${CLAIMS}${createHash('sha256').update(scope).digest('hex')}`;

export const CLAIMS_COMPARED = 'claims-compared';

export const PLANS = 'compaction/';
export const COMPACTION_TURN = `${PLANS}turn`;
export const RETENTION_TURN = 'retention/turn';

export const EVENTS = 'events/';
export const CURSOR = `${EVENTS}cursor`;
export const LATE_SEGMENTS = `${EVENTS}late/`;
export const REMOVED_UPLOADS = `${EVENTS}removed/`;

/** An empty object in place of a segment. While it exists, the segment can't be created. */
export const FENCE = Buffer.alloc(0);

export const HEALTH = 'health';
/** The key with which the rights to read, list and remove objects are checked. Usually no object has this key. */
export const HEALTH_RIGHTS = 'health-rights';
/** The key of the object that names the store whose uploads are being moved, or were moved, to this bucket. */
export const MOVE = 'move';
