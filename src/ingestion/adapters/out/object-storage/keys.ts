import { createHash } from 'node:crypto';

/** The segment that contains only the line of one upload, in the directory of its kind and day (see segment-names.ts). */
export const ownSegment = (directory: string, uploadId: string): string => `${directory}/${uploadId}.ndjson`;

/** Prefix of the markers of uploads in progress. */
export const MARKERS = 'staging/';
export const markerKey = (uploadId: string): string => `${MARKERS}${uploadId}`;

/** Prefix of the claims of idempotency keys. */
export const CLAIMS = 'idempotency/';
export const claimKey = (scope: string): string => `${CLAIMS}${createHash('sha256').update(scope).digest('hex')}`;

/** Prefix of the plans of compaction, and of the object that decides which replica's turn it is. */
export const PLANS = 'compaction/';
export const COMPACTION_TURN = `${PLANS}turn`;
/** The object that decides which replica removes expired uploads. */
export const RETENTION_TURN = 'retention/turn';

/** Prefix of what is remembered of telling: the cursor, late segments, and removed uploads. */
export const EVENTS = 'events/';
export const CURSOR = `${EVENTS}cursor`;
export const LATE_SEGMENTS = `${EVENTS}late/`;
export const REMOVED_UPLOADS = `${EVENTS}removed/`;

/** Content of an upload's own segment after the upload was ended. The upload's line can no longer be written then. */
export const FENCE = Buffer.alloc(0);

/** The key of an object that is written to check whether the store accepts writes. */
export const HEALTH = 'health';
/** The key that is read and removed to check whether the store permits this. */
export const HEALTH_RIGHTS = 'health-rights';
