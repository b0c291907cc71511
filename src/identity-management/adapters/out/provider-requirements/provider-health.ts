import { ServiceError } from '../../../../common/service-error.js';
import { PROBE_TIMEOUT_MS, SharedProbe } from '../../../../common/shared-probe.js';
import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { ProviderMisconfigured, ProviderUnavailable } from '../../../domain/errors.js';
import { Operation } from '../provider-api/operation.js';
import type { Findings } from './requirement.js';

export type Look = (previous: Findings | undefined, operation: Operation) => Promise<Findings>;

/** Checks whether an identity provider is configured as the service needs. Simultaneous callers share one check. */
export class ProviderHealth {
  private readonly probe = new SharedProbe((signal) => this.lookAgain(signal));
  private findings: Findings | undefined;
  private healthyUntil = -Infinity;

  /**
   * @param healthyForMs how long a result without problems is cached, in milliseconds (default: 0). Every result is
   * cached for at least one second.
   */
  constructor(
    private readonly provider: string,
    private readonly look: Look,
    private readonly healthyForMs = 0,
  ) {}

  /**
   * @throws ProviderMisconfigured when a check found problems, now or in a result that is still cached.
   * @throws ProviderUnavailable when there is no result within four seconds, when the signal has aborted before the
   * call, or when `look` throws anything but a `ServiceError`.
   * @throws the ServiceError of `look`.
   */
  async check(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw noLongerAwaited(signal);
    await this.probe.check().catch((error: unknown) => {
      throw error instanceof ServiceError ? error : new ProviderUnavailable(`${this.provider} does not answer.`, { cause: error });
    });
  }

  get warnings(): readonly string[] {
    return this.findings?.warnings ?? [];
  }

  private async lookAgain(signal: AbortSignal): Promise<void> {
    if (performance.now() < this.healthyUntil) return;
    this.findings = await this.look(this.findings, new Operation(signal, 'urgent')).catch((error: unknown) => {
      throw signal.aborted ? new ProviderUnavailable(`${this.provider} gives no answer within ${PROBE_TIMEOUT_MS} ms.`, { cause: error }) : error;
    });
    if (this.findings.problems.length > 0) throw new ProviderMisconfigured(this.findings.problems);
    this.healthyUntil = performance.now() + this.healthyForMs;
  }
}
