import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

interface WaitingFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/**
 * Makes small files in a thread of its own, all that wait at once: three calls of the thread pool for each of them cost
 * more than the file, and the main thread must not wait for a disk.
 */
export class FileMaker {
  private worker: Worker | undefined;
  private waiting: WaitingFile[] = [];
  private running: Promise<void> | undefined;

  /** Rejects with what the file system throws; the file may be there in part then, but for `EEXIST`. */
  make(path: string, bytes: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ path, bytes, resolve, reject });
      this.running ??= this.run();
    });
  }

  private async run(): Promise<void> {
    while (this.waiting.length > 0) {
      const batch = this.waiting;
      this.waiting = [];
      try {
        const failures = await this.makeAll(batch);
        for (const [index, { resolve, reject }] of batch.entries()) {
          const failure = failures[index];
          if (failure) reject(Object.assign(new Error(failure.message), { code: failure.code }));
          else resolve();
        }
      } catch (error) {
        this.worker = undefined;
        for (const { reject } of batch) reject(error as Error);
      }
    }
    this.running = undefined;
  }

  private async makeAll(batch: readonly WaitingFile[]): Promise<readonly ({ code: string; message: string } | undefined)[]> {
    const worker = (this.worker ??= new Worker(new URL('./file-maker.worker.mjs', import.meta.url)));
    // The process may end while none is under way.
    worker.ref();
    worker.postMessage(batch.map(({ path, bytes }) => ({ path, bytes })));
    try {
      const [failures] = (await once(worker, 'message')) as [({ code: string; message: string } | undefined)[]];
      return failures;
    } finally {
      worker.unref();
    }
  }
}
