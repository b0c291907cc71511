import { ServiceError } from '../../../../common/service-error.js';
import { SharedProbe } from '../../../../common/shared-probe.js';
import { assertAwaited } from '../../../application/ports/awaited.js';
import { ProviderMisconfigured, ProviderUnavailable } from '../../../domain/errors.js';
import type { Findings } from './requirement.js';

/** What is wrong, with what was found before, if it was looked at. */
export type Look = (previous: Findings | undefined, signal: AbortSignal) => Promise<Findings>;

const TIMEOUT_MS = 4_000;

/** Whether an identity provider is as the service needs it: looked at once for all who want to know. */
export class ProviderHealth {
  private readonly probe = new SharedProbe(() => this.lookAgain());
  /** Of the latest look. */
  private findings: Findings | undefined;
  private wellUntil = -Infinity;

  /**
   * @param provider as messages name it.
   * @param wellForMs how long nothing is looked at again when there were no problems; a second unless told, as when there were.
   */
  constructor(
    private readonly provider: string,
    private readonly look: Look,
    private readonly wellForMs = 0,
  ) {}

  /** @throws ProviderMisconfigured when the latest look found problems; ProviderUnavailable after four seconds; what `look` throws. */
  async check(signal: AbortSignal): Promise<void> {
    assertAwaited(signal);
    await this.probe.check().catch((error: unknown) => {
      throw error instanceof ServiceError ? error : new ProviderUnavailable(`${this.provider} does not answer.`, { cause: error });
    });
  }

  /** Of the latest look. */
  get warnings(): readonly string[] {
    return this.findings?.warnings ?? [];
  }

  private async lookAgain(): Promise<void> {
    if (performance.now() < this.wellUntil) return;
    const limit = AbortSignal.timeout(TIMEOUT_MS);
    this.findings = await this.look(this.findings, limit).catch((error: unknown) => {
      throw limit.aborted ? new ProviderUnavailable(`${this.provider} gives no answer within ${TIMEOUT_MS} ms.`, { cause: error }) : error;
    });
    if (this.findings.problems.length > 0) throw new ProviderMisconfigured(this.findings.problems);
    this.wellUntil = performance.now() + this.wellForMs;
  }
}
