import { withTimeLimit } from './time-limit.js';

const REUSED_FOR_MS = 1_000;
/** The time in which a health check settles, as the ports (`*.port.ts`) promise. */
export const HEALTH_CHECK_TIMEOUT_MS = 5_000;
/** The time limit of a probe. A second is left for the health check to answer with the probe's error. */
export const PROBE_TIMEOUT_MS = HEALTH_CHECK_TIMEOUT_MS - 1_000;

/** A health probe whose result is shared by all its callers. */
export class SharedProbe {
  private answer: Promise<void> | undefined;
  private answeredAt: number | undefined;

  /** @param probe isn't called again before its promise has settled. Its `signal` aborts after four seconds. */
  constructor(private readonly probe: (signal: AbortSignal) => Promise<void>) {}

  /**
   * Resolves or rejects as the probe does, whose result is reused for one second.
   *
   * @throws Error if the probe gives no result within four seconds of this call.
   */
  async check(): Promise<void> {
    if (this.answeredAt !== undefined && performance.now() - this.answeredAt >= REUSED_FOR_MS) this.answer = undefined;
    const answer = (this.answer ??= this.ask());
    await withTimeLimit(PROBE_TIMEOUT_MS, () => answer, () => new Error(`No answer within ${PROBE_TIMEOUT_MS} ms.`));
  }

  private async ask(): Promise<void> {
    this.answeredAt = undefined;
    try {
      await this.probe(AbortSignal.timeout(PROBE_TIMEOUT_MS));
    } finally {
      this.answeredAt = performance.now();
    }
  }
}
