import { Worker } from 'node:worker_threads';

interface WaitingFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly device: bigint | undefined;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Errors of the file system, by the file's index in the batch. */
type Failures = ReadonlyMap<number, { readonly code: string; readonly message: string }>;

/**
 * Creates small files in a worker thread, all waiting files in one batch. Three thread-pool calls per file would cost
 * more than the file itself, and the main thread must not wait for a disk.
 */
export class FileMaker {
  private worker: Worker | undefined;
  private waiting: WaitingFile[] = [];
  /** The files that the worker is creating. */
  private batch: readonly WaitingFile[] | undefined;

  constructor(
    /** Script of the worker thread. */
    private readonly script = new URL('./file-maker.worker.mjs', import.meta.url),
  ) {}

  /**
   * Creates a file. Rejects with the error of the file system. After an error other than `EEXIST`, part of the file may
   * exist.
   *
   * @param device the device the file must be on, if given; rejects with `EXDEV` if it is on another one.
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
    // The worker keeps the process alive only while files are in flight: `end` reverts this.
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
