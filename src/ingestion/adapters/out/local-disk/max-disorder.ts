/**
 * The order of lines in a segment isn't exact, because a line is written some time after its upload was complete: a
 * line may follow lines of uploads that were received later than its own upload, but by at most this many milliseconds.
 * Searching a segment by time depends on this limit.
 */
export const MAX_DISORDER_MS = 10_000;
