import { withTimeLimit } from './time-limit.js';

const REUSED_FOR_MS = 1_000;
const LONGEST_MS = 4_000;

/** Asks whether something is well, once for all who want to know. */
export class SharedProbe {
  private answer: Promise<void> | undefined;
  private answeredAt: number | undefined;

  /** @param probe is not called again before it has answered. */
  constructor(private readonly probe: () => Promise<void>) {}

  /** Resolves and rejects as the probe, whose answer is good for a second; rejects after four seconds of silence. */
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
