/**
 * Lets one consumer sleep until there is news. News that is announced while the consumer is awake ends its next sleep
 * at once, unless the consumer calls `clear` in between.
 */
export class Wakeup {
  private isDue = false;
  private wakeSleeper: (() => void) | undefined;

  wake(): void {
    this.isDue = true;
    this.wakeSleeper?.();
  }

  /**
   * Must be called before looking for what is new. In the opposite order, news announced in between would be missed.
   */
  clear(): void {
    this.isDue = false;
  }

  /**
   * Resolves at the next news (at once if there were news since `clear`), after `longestMs` milliseconds, or when the
   * signal aborts. Never rejects.
   */
  async sleep(longestMs: number, signal: AbortSignal): Promise<void> {
    if (this.isDue || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        this.wakeSleeper = undefined;
        resolve();
      };
      const timer = setTimeout(end, longestMs).unref();
      signal.addEventListener('abort', end);
      this.wakeSleeper = end;
    });
  }
}
