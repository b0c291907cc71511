/** By how many milliseconds this machine's clock was set forward since the process started; negative if set back. */
export const clockShiftMs = (): number => Date.now() - performance.timeOrigin - performance.now();
