/** Lets one consumer sleep until there is news. News that arrive while nobody sleeps end the next sleep at once. */
export class Wakeup {
  private isDue = false;
  private wakeSleeper: (() => void) | undefined;

  /** Announces news. Costs next to nothing while nobody sleeps. */
  wake(): void {
    this.isDue = true;
    this.wakeSleeper?.();
  }

  /** Forgets the news so far. Call `clear` before looking for what is new, not after. */
  clear(): void {
    this.isDue = false;
  }

  /** Resolves at the next news, after `longestMs` milliseconds, or when the signal aborts. Never rejects. */
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
