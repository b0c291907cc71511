import { createHash } from 'node:crypto';

/** The segment that holds the line of one upload alone, in the directory of its kind and day. */
export const ownSegment = (directory: string, uploadId: string): string => `${directory}/${uploadId}.ndjson`;

/** Where markers of uploads under way stand. */
export const MARKERS = 'staging/';
export const markerKey = (uploadId: string): string => `${MARKERS}${uploadId}`;

/** Where claims of idempotency keys stand. */
export const CLAIMS = 'idempotency/';
export const claimKey = (scope: string): string => `${CLAIMS}${createHash('sha256').update(scope).digest('hex')}`;

/** Where plans of compaction stand, and whose turn it is. */
export const PLANS = 'compaction/';
export const TURN = `${PLANS}turn`;

/** What an own segment holds when somebody has ended its upload: its line can't be written any more. */
export const FENCE = Buffer.alloc(0);

/** What is written to find out whether the store can be. */
export const HEALTH = 'health';
/** What is removed to find out whether objects can be. */
export const HEALTH_RIGHTS = 'health-rights';
