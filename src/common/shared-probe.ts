import { withTimeLimit } from './time-limit.js';

const REUSED_FOR_MS = 1_000;
const LONGEST_MS = 4_000;

/** A health probe whose result is shared by all callers. */
export class SharedProbe {
  private answer: Promise<void> | undefined;
  private answeredAt: number | undefined;

  /** @param probe is not called again before it has settled. */
  constructor(private readonly probe: () => Promise<void>) {}

  /** Settles like the probe, whose result is reused for one second. Rejects after four seconds without a result. */
  async check(): Promise<void> {
    if (this.answeredAt !== undefined && performance.now() - this.answeredAt >= REUSED_FOR_MS) this.answer = undefined;
    this.answer ??= this.ask();
    await withTimeLimit(LONGEST_MS, this.answer, () => new Error(`There is no answer for ${LONGEST_MS} ms.`));
  }

  private async ask(): Promise<void> {
    this.answeredAt = undefined;
    try {
      await this.probe();
    } finally {
      this.answeredAt = performance.now();
    }
  }
}
