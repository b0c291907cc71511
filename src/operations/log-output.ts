import { fstatSync, write, writeSync } from 'node:fs';

/**
 * Log lines are collected until they have this many characters in total, or for this many milliseconds, and then
 * written together. Writing each line by itself took 8 % of the time of a small upload. A crash can lose lines that
 * aren't written yet.
 */
const WRITTEN_AT_LENGTH = 4096;
const WRITTEN_AFTER_MS = 100;
/**
 * About how many characters of lines wait at most while earlier lines can't be written yet. Further lines are dropped,
 * so that memory doesn't run out.
 */
const WAITING_LENGTH = 16 * 1024 * 1024;
/** How long the end of the process waits for the reader of the log at most, in milliseconds. */
const END_TIMEOUT_MS = 1_000;
const END_RETRY_MS = 5;

const EMPTY = Buffer.alloc(0);

/**
 * Writes log lines to a file descriptor, and the last ones when the process exits, unless a signal kills it. The
 * destination of pino (sonic-boom) isn't used, because it writes its last lines in a loop that never ends if a pipe has
 * no reader or a disk is full. Here, lines that can't be written are dropped, and later lines are written again.
 *
 * Lines to a file are written in the background, because a slow disk would stop the event loop. Lines to a pipe are
 * written synchronously: Node has made the pipe of standard output non-blocking, so if the pipe is full, the write
 * fails at once and is repeated later.
 */
export class LogOutput {
  private lines = '';
  /** The bytes of earlier lines that aren't written yet. */
  private bytes: Buffer = EMPTY;
  private isWriting = false;
  private timer: NodeJS.Timeout | undefined;
  private readonly isFile: boolean;

  constructor(private readonly descriptor: number) {
    this.isFile = fstatSync(descriptor).isFile();
    process.on('exit', () => {
      this.end();
    });
  }

  write(line: string): void {
    if (this.lines.length >= WAITING_LENGTH) return;
    this.lines += line;
    if (this.bytes.length === 0) this.writeSoon();
  }

  private writeSoon(): void {
    if (this.lines.length >= WRITTEN_AT_LENGTH) this.writeNow();
    else this.timer ??= setTimeout(this.writeNow, WRITTEN_AFTER_MS).unref();
  }

  /** Writes what the descriptor takes. The rest is written later. */
  private readonly writeNow = (): void => {
    clearTimeout(this.timer);
    this.timer = undefined;
    while (!this.isWriting && this.hasBytes()) {
      if (this.isFile) {
        this.isWriting = true;
        write(this.descriptor, this.bytes, (error, written) => {
          this.isWriting = false;
          this.bytes = error ? EMPTY : this.bytes.subarray(written);
          if (this.bytes.length > 0) this.writeNow();
          else if (this.lines.length > 0) this.writeSoon();
        });
      } else if (!this.tryToWrite()) {
        this.timer = setTimeout(this.writeNow, WRITTEN_AFTER_MS).unref();
        return;
      }
    }
  };

  /** Whether there is anything to write. Takes the next lines if all earlier ones are written. */
  private hasBytes(): boolean {
    if (this.bytes.length === 0) {
      this.bytes = Buffer.from(this.lines);
      this.lines = '';
    }
    return this.bytes.length > 0;
  }

  /** Returns false if the reader must read first. Drops the bytes if they can't be written at all. */
  private tryToWrite(): boolean {
    try {
      this.bytes = this.bytes.subarray(writeSync(this.descriptor, this.bytes));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false;
      this.bytes = EMPTY;
    }
    return true;
  }

  /** Writes the last lines. Skips bytes that are being written in the background: the process waits for that write. */
  private end(): void {
    if (this.isWriting) this.bytes = EMPTY;
    const latest = performance.now() + END_TIMEOUT_MS;
    const sleeper = new Int32Array(new SharedArrayBuffer(4));
    while (this.hasBytes() && performance.now() < latest) {
      if (!this.tryToWrite()) Atomics.wait(sleeper, 0, 0, END_RETRY_MS);
    }
  }
}
