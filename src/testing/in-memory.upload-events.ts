import { type UploadEvent, UploadEvents } from '../ingestion/application/ports/upload-events.port.js';

/** An adapter of the `UploadEvents` port that keeps delivered events in memory. Fails while a test wants it to. */
export class InMemoryUploadEvents extends UploadEvents {
  /** The delivered events, in the order of delivery. An event that was delivered twice is listed twice. */
  readonly delivered: UploadEvent[] = [];
  private readonly watchers = new Set<() => void>();
  private failure: Error | null = null;

  /** Makes every delivery reject with this error, until `recover` is called. */
  failWith(error: Error): void {
    this.failure = error;
  }

  recover(): void {
    this.failure = null;
  }

  /** Waits until at least `count` events have been delivered, and resolves to all delivered events. */
  async atLeast(count: number): Promise<readonly UploadEvent[]> {
    while (this.delivered.length < count) await new Promise<void>((resolve) => this.watchers.add(resolve));
    return this.delivered;
  }

  override deliver(events: readonly UploadEvent[], signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      signal.throwIfAborted();
      if (this.failure) throw this.failure;
      this.delivered.push(...events);
      for (const notify of this.watchers) notify();
      this.watchers.clear();
      resolve();
    });
  }
}
