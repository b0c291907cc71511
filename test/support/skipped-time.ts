import { vi } from 'vitest';

const now = performance.now.bind(performance);
let skippedMs = 0;
let clock: { mockRestore(): unknown } | undefined;

/** Moves the monotonic clock of this process ahead, until `restoreTime` is called. Timers and `Date` don't change. */
export function skipTime(ms: number): void {
  skippedMs += ms;
  clock ??= vi.spyOn(performance, 'now').mockImplementation(() => now() + skippedMs);
}

/** Ends the effect of `skipTime`. Close services that have seen the skipped time before: their clock would go back. */
export function restoreTime(): void {
  clock?.mockRestore();
  clock = undefined;
  skippedMs = 0;
}
