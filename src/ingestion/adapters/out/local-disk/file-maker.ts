import { Worker } from 'node:worker_threads';

interface WaitingFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly device: bigint | undefined;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** What the file system threw, by the number of the file. */
type Failures = ReadonlyMap<number, { readonly code: string; readonly message: string }>;

/**
 * Makes small files in a thread of its own, all that wait at once: three calls of the thread pool for each of them cost
 * more than the file, and the main thread must not wait for a disk.
 */
export class FileMaker {
  private worker: Worker | undefined;
  private waiting: WaitingFile[] = [];
  /** What the worker is busy with. */
  private batch: readonly WaitingFile[] | undefined;

  constructor(
    /** What the thread runs. */
    private readonly script = new URL('./file-maker.worker.mjs', import.meta.url),
  ) {}

  /**
   * Rejects with what the file system throws; the file may be there in part then, but for `EEXIST`.
   *
   * @param device where the file must be, if given; `EXDEV` when it is on another one.
   */
  make(path: string, bytes: Uint8Array, device?: bigint): Promise<void> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ path, bytes, device, resolve, reject });
      if (!this.batch) this.begin();
    });
  }

  private begin(): void {
    const { waiting: batch } = this;
    this.waiting = [];
    this.batch = batch;
    try {
      this.send(batch);
    } catch (error) {
      this.batch = undefined;
      for (const { reject } of batch) reject(error as Error);
    }
  }

  private send(batch: readonly WaitingFile[]): void {
    const bytes = new Uint8Array(batch.reduce((sum, file) => sum + file.bytes.length, 0));
    let end = 0;
    const files = batch.map((file) => {
      bytes.set(file.bytes, end);
      return { path: file.path, device: file.device, end: (end += file.bytes.length) };
    });
    const worker = (this.worker ??= this.start());
    // The process may end while none is under way.
    worker.ref();
    worker.postMessage({ files, bytes }, [bytes.buffer]);
  }

  private start(): Worker {
    const worker = new Worker(this.script);
    worker.on('message', (failures: Failures) => {
      this.end(({ resolve, reject }, index) => {
        const failure = failures.get(index);
        if (failure) reject(Object.assign(new Error(failure.message), { code: failure.code }));
        else resolve();
      });
    });
    worker.on('error', (error) => {
      this.worker = undefined;
      this.end(({ reject }) => {
        reject(error);
      });
    });
    return worker;
  }

  private end(settle: (file: WaitingFile, index: number) => void): void {
    this.batch?.forEach(settle);
    this.batch = undefined;
    if (this.waiting.length > 0) this.begin();
    else this.worker?.unref();
  }
}
