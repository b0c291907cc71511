const INTERVAL_MS = 200;

/** A line on standard error that shows how far a command is; nothing where that is no terminal. */
export class ProgressLine {
  private readonly timer: NodeJS.Timeout | undefined;

  /** @param text what it shows now. */
  constructor(text: () => string) {
    if (process.stderr.isTTY) this.timer = setInterval(() => process.stderr.write(`\r\x1b[K${text()}`), INTERVAL_MS);
  }

  /** The same lines, each with this one out of its way. */
  async *beside(lines: AsyncIterable<string>): AsyncGenerator<string> {
    for await (const line of lines) {
      this.clear();
      yield line;
    }
  }

  end(): void {
    clearInterval(this.timer);
    this.clear();
  }

  private clear(): void {
    if (this.timer) process.stderr.write('\r\x1b[K');
  }
}
