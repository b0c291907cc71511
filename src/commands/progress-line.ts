import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const INTERVAL_MS = 200;

/**
 * A progress line on standard error, renewed five times a second. Nothing is shown if standard error isn't a terminal.
 */
export class ProgressLine {
  private readonly timer: NodeJS.Timeout | undefined;

  /** @param text returns the current progress. */
  constructor(text: () => string) {
    if (process.stderr.isTTY) this.timer = setInterval(() => process.stderr.write(`\r\x1b[K${text()}`), INTERVAL_MS);
  }

  /**
   * Yields the given output lines unchanged. Clears the progress line before each output line, so that output and
   * progress don't mix on a terminal.
   */
  async *beside(lines: AsyncIterable<string>): AsyncGenerator<string> {
    for await (const line of lines) {
      this.clear();
      yield line;
    }
  }

  /** Clears the progress line, and prints text on standard output. */
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
 * Writes a report to standard output, no faster than it is read there, beside a progress line on standard error.
 * Rejects with errors of the report, and when standard output is closed.
 *
 * @param lines the lines of the report, each with its newline.
 * @param progressText returns the current progress.
 */
export async function writeReport(lines: AsyncIterable<string>, progressText: () => string): Promise<void> {
  const progress = new ProgressLine(progressText);
  try {
    await pipeline(Readable.from(progress.beside(lines)), process.stdout, { end: false });
  } finally {
    progress.end();
  }
}
