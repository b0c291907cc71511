/**
 * In a segment, an index line may follow the lines of uploads that were received up to this much later than its own
 * upload, in milliseconds. The order isn't exact, because a line is written some time after its upload was complete.
 * Searching a segment by time depends on this limit.
 */
export const MAX_DISORDER_MS = 10_000;
