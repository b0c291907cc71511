import type { StoreVerification } from './store-verification.js';

const INTERVAL_MS = 200;
const WIDTH = 20;
const PHASES = { listing: 'listing files', lines: 'checking uploads', matching: 'matching files' } as const;

/** A line on standard error that shows how far a verification is; nothing where that is no terminal. */
export class ProgressBar {
  private readonly timer: NodeJS.Timeout | undefined;

  constructor(private readonly verification: StoreVerification) {
    if (process.stderr.isTTY) this.timer = setInterval(() => process.stderr.write(`\r\x1b[K${this.line()}`), INTERVAL_MS);
  }

  /** The same lines, each with the bar out of its way. */
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

  private line(): string {
    const { progress, totals } = this.verification;
    const share = progress.total === 0 ? 0 : Math.min(1, progress.done / progress.total);
    const bar = '#'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '.');
    const mebibytes = Math.floor(totals.bytes / 2 ** 20);
    const counts = `${totals.uploads} uploads, ${totals.files} files, ${mebibytes} MiB, ${totals.defects} defects`;
    return `[${bar}] ${String(Math.floor(share * 100)).padStart(3)} % ${PHASES[progress.phase]} (${counts})`;
  }
}
