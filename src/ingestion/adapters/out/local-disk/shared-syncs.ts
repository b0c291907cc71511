import type { Disk } from './disk.js';

/** Syncs directories. Callers that ask while a directory is being synced share its next sync. */
export class SharedSyncs {
  private readonly running = new Map<string, Promise<void>>();
  private readonly next = new Map<string, Promise<void>>();

  constructor(private readonly disk: Disk) {}

  /** Resolves when the names that a directory had at the call are durable (see `Disk.syncDirectory`). */
  sync(directory: string): Promise<void> {
    const running = this.running.get(directory);
    if (!running) return this.begin(directory);
    const waiting = this.next.get(directory);
    if (waiting) return waiting;
    const after = () => {
      this.next.delete(directory);
      return this.begin(directory);
    };
    const next = running.then(after, after);
    this.next.set(directory, next);
    return next;
  }

  private begin(directory: string): Promise<void> {
    const running = this.disk.syncDirectory(directory).finally(() => {
      if (this.running.get(directory) === running) this.running.delete(directory);
    });
    this.running.set(directory, running);
    return running;
  }
}
