import { ServiceError } from '../../../../common/service-error.js';
import { PROBE_TIMEOUT_MS, SharedProbe } from '../../../../common/shared-probe.js';
import { assertAwaited } from '../../../application/ports/awaited.js';
import { ProviderMisconfigured, ProviderUnavailable } from '../../../domain/errors.js';
import { Operation } from '../provider-api/operation.js';
import type { Findings } from './requirement.js';

/** Finds what is wrong. Gets the previous findings, if any. */
export type Look = (previous: Findings | undefined, operation: Operation) => Promise<Findings>;

/** Checks whether an identity provider is configured as the service needs it. All callers share one check. */
export class ProviderHealth {
  private readonly probe = new SharedProbe((signal) => this.lookAgain(signal));
  /** The result of the latest check. */
  private findings: Findings | undefined;
  private wellUntil = -Infinity;

  /**
   * @param provider its name in messages.
   * @param wellForMs how long a healthy result is cached, in milliseconds (default: 1 s, as for an unhealthy one).
   */
  constructor(
    private readonly provider: string,
    private readonly look: Look,
    private readonly wellForMs = 0,
  ) {}

  /**
   * @throws ProviderMisconfigured when the latest check found problems; ProviderUnavailable after four seconds; errors
   * of `look`.
   */
  async check(signal: AbortSignal): Promise<void> {
    assertAwaited(signal);
    await this.probe.check().catch((error: unknown) => {
      throw error instanceof ServiceError ? error : new ProviderUnavailable(`${this.provider} does not answer.`, { cause: error });
    });
  }

  /** The warnings of the latest check. */
  get warnings(): readonly string[] {
    return this.findings?.warnings ?? [];
  }

  private async lookAgain(signal: AbortSignal): Promise<void> {
    if (performance.now() < this.wellUntil) return;
    this.findings = await this.look(this.findings, new Operation(signal, 'urgent')).catch((error: unknown) => {
      throw signal.aborted ? new ProviderUnavailable(`${this.provider} gives no answer within ${PROBE_TIMEOUT_MS} ms.`, { cause: error }) : error;
    });
    if (this.findings.problems.length > 0) throw new ProviderMisconfigured(this.findings.problems);
    this.wellUntil = performance.now() + this.wellForMs;
  }
}
