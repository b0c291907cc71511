const TURN_MS = 5;

const waiting: (() => void)[] = [];
let isScheduled = false;

function schedule(): void {
  if (isScheduled || waiting.length === 0) return;
  isScheduled = true;
  setImmediate(() => {
    isScheduled = false;
    waiting.shift()?.();
    schedule();
  });
}

/** How many jobs of the process wait for a turn. */
export const waitingTurns = (): number => waiting.length;

/**
 * Splits one CPU-heavy job into turns of about 5 ms. Each iteration of the event loop grants one turn to one job of the
 * process, so that the loop stays responsive however many jobs there are.
 *
 * A job checks `isOver` before each of its steps, which may take 1 ms at most. If `isOver` is true, as before the first
 * step, the job awaits `next`.
 */
export class Turns {
  private end = -Infinity;

  get isOver(): boolean {
    return performance.now() >= this.end;
  }

  async next(): Promise<void> {
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      schedule();
    });
    this.end = performance.now() + TURN_MS;
  }
}
