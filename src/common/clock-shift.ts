/**
 * How far the clock of the machine was set forward since the process started, in milliseconds; negative if it was set
 * back.
 */
export const clockShiftMs = (): number => Date.now() - performance.timeOrigin - performance.now();
