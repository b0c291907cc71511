import { createHash } from 'node:crypto';

/** The segment that contains only the line of one upload, in the directory of its kind and day. */
export const ownSegment = (directory: string, uploadId: string): string => `${directory}/${uploadId}.ndjson`;

/** Prefix of the markers of uploads in progress. */
export const MARKERS = 'staging/';
export const markerKey = (uploadId: string): string => `${MARKERS}${uploadId}`;

/** Prefix of the claims of idempotency keys. */
export const CLAIMS = 'idempotency/';
export const claimKey = (scope: string): string => `${CLAIMS}${createHash('sha256').update(scope).digest('hex')}`;

/** Prefix of the plans of compaction, and of the object that decides which replica's turn it is. */
export const PLANS = 'compaction/';
export const TURN = `${PLANS}turn`;

/** Content of an upload's own segment after another process ended the upload. Its line can no longer be written. */
export const FENCE = Buffer.alloc(0);

/** Written to check whether the store accepts writes. */
export const HEALTH = 'health';
/** Removed to check whether the store permits removals. */
export const HEALTH_RIGHTS = 'health-rights';
