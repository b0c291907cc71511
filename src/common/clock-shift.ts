/**
 * How far the clock of the machine was set forward since the process started, in milliseconds; negative if it was set
 * back. The comparison is with the monotonic clock, which is never set.
 */
export const clockShiftMs = (): number => Date.now() - performance.timeOrigin - performance.now();
