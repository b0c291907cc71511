import { Worker } from 'node:worker_threads';

interface WaitingFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly device: bigint | undefined;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

type Failures = ReadonlyMap<number, { readonly code: string; readonly message: string }>;

type Ended = (outcome: Failures | Error) => void;

const ignore: Ended = () => undefined;

/** A worker thread that creates one batch of files at a time. */
class MakerThread {
  private readonly worker: Worker;
  private ended = ignore;

  constructor(script: URL, lost: (thread: MakerThread) => void) {
    this.worker = new Worker(script);
    this.worker.on('message', this.end);
    this.worker.on('error', (error) => {
      lost(this);
      this.end(error);
    });
  }

  send(batch: readonly WaitingFile[], ended: Ended): void {
    let length = 0;
    for (const file of batch) length += file.bytes.length;
    const bytes = new Uint8Array(length);
    const files = [];
    let end = 0;
    for (const file of batch) {
      bytes.set(file.bytes, end);
      end += file.bytes.length;
      files.push({ path: file.path, device: file.device, end });
    }
    this.ended = ended;
    this.worker.ref();
    this.worker.postMessage({ files, bytes }, [bytes.buffer]);
  }

  private readonly end = (outcome: Failures | Error): void => {
    const { ended } = this;
    this.ended = ignore;
    this.worker.unref();
    ended(outcome);
  };
}

/**
 * Idle worker threads, shared by the stores of a process. A store takes one at a time, so a hanging disk blocks no
 * other.
 */
export class MakerThreads {
  private readonly idle: MakerThread[] = [];

  constructor(
    private readonly script = new URL('./file-maker.worker.mjs', import.meta.url),
  ) {}

  take(): MakerThread {
    const forget = (lost: MakerThread) => {
      this.forget(lost);
    };
    return this.idle.pop() ?? new MakerThread(this.script, forget);
  }

  giveBack(thread: MakerThread): void {
    this.idle.push(thread);
  }

  private forget(thread: MakerThread): void {
    const index = this.idle.indexOf(thread);
    if (index >= 0) this.idle.splice(index, 1);
  }
}

const THREADS = new MakerThreads();

/**
 * Creates small files in a worker thread, all waiting files in one batch. In Node's thread pool, each file would take
 * three calls (open, write, close), which cost more than the file itself.
 */
export class FileMaker {
  private waiting: WaitingFile[] = [];
  private thread: MakerThread | undefined;

  constructor(private readonly threads = THREADS) {}

  /**
   * Creates a file. After an error other than `EEXIST`, the file may exist, empty or incomplete.
   *
   * @param device the device that the file must be on. Default: any.
   * @throws an error with the file system's code and message, or `EXDEV` for another device; the error that ended the
   *   worker thread.
   */
  make(path: string, bytes: Uint8Array, device?: bigint): Promise<void> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ path, bytes, device, resolve, reject });
      if (!this.thread) this.begin();
    });
  }

  private begin(): void {
    const { waiting: batch } = this;
    this.waiting = [];
    try {
      const thread = (this.thread ??= this.threads.take());
      thread.send(batch, (outcome) => {
        this.end(batch, outcome);
      });
    } catch (error) {
      this.end(batch, error as Error);
    }
  }

  private end(batch: readonly WaitingFile[], outcome: Failures | Error): void {
    const isLost = outcome instanceof Error;
    for (const [index, { resolve, reject }] of batch.entries()) {
      const failure = isLost ? outcome : outcome.get(index);
      if (!failure) resolve();
      else reject(failure instanceof Error ? failure : Object.assign(new Error(failure.message), { code: failure.code }));
    }
    if (isLost) this.thread = undefined;
    if (this.waiting.length > 0) {
      this.begin();
    } else if (this.thread) {
      this.threads.giveBack(this.thread);
      this.thread = undefined;
    }
  }
}
