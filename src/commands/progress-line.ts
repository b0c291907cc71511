import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const INTERVAL_MS = 200;

/** Shows progress on the last line of standard error. Shows nothing if standard error isn't a terminal. */
export class ProgressLine {
  private readonly timer: NodeJS.Timeout | undefined;

  constructor(text: () => string) {
    if (process.stderr.isTTY) this.timer = setInterval(() => process.stderr.write(`\r\x1b[K${text()}`), INTERVAL_MS);
  }

  /** Yields the lines of output, and clears the progress line before each, so that the two don't mix on a terminal. */
  async *beside(lines: AsyncIterable<string>): AsyncGenerator<string> {
    for await (const line of lines) {
      this.clear();
      yield line;
    }
  }

  write(text: string): void {
    this.clear();
    process.stdout.write(text);
  }

  end(): void {
    clearInterval(this.timer);
    this.clear();
  }

  private clear(): void {
    if (this.timer) process.stderr.write('\r\x1b[K');
  }
}

/**
 * Writes a report to standard output, no faster than it is read there, and shows a progress line meanwhile.
 *
 * @param lines the lines of the report, each with its newline.
 * @throws errors of `lines`; an error when standard output is closed.
 */
export async function writeReport(lines: AsyncIterable<string>, progressText: () => string): Promise<void> {
  const progress = new ProgressLine(progressText);
  try {
    await pipeline(Readable.from(progress.beside(lines)), process.stdout, { end: false });
  } finally {
    progress.end();
  }
}
