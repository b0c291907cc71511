import { Injectable, Logger } from '@nestjs/common';
import { type HealthIndicatorResult, HealthIndicatorService } from '@nestjs/terminus';
import { AccessTokenVerifier } from '../../authentication/access-token.js';
import { messageWithRootCause } from '../../common/error-message.js';
import { HEALTH_CHECK_TIMEOUT_MS, PROBE_TIMEOUT_MS } from '../../common/shared-probe.js';
import { withTimeLimit } from '../../common/time-limit.js';
import { IdentityProvider } from '../../identity-management/application/ports/identity-provider.port.js';
import { ProviderMisconfigured } from '../../identity-management/domain/errors.js';
import { FileStorage } from '../../ingestion/application/ports/file-storage.port.js';

type Terminus12Indicator = ReturnType<HealthIndicatorService['check']>;
/** Terminus 11 has no method `degraded`, so that method of a health indicator is optional. */
type Indicator = Pick<Terminus12Indicator, 'up' | 'down'> & Partial<Pick<Terminus12Indicator, 'degraded'>>;

export type HealthState = 'up' | 'degraded' | 'down';

/** Whether the file storage and the identity provider are healthy. */
@Injectable()
export class Readiness {
  private readonly logger = new Logger(Readiness.name);
  private readonly unhealthy = new Set<string>();
  /** The lines that each check reported last, by the check's name. A line is logged when it wasn't among them. */
  private readonly logged = new Map<string, readonly string[]>();

  constructor(
    private readonly indicators: HealthIndicatorService,
    private readonly fileStorage: FileStorage,
    private readonly identityProvider: IdentityProvider,
    private readonly accessTokens: AccessTokenVerifier,
  ) {}

  /**
   * The health checks. Each ends within five seconds. The reason of a failure is logged, but isn't part of the result,
   * except for misconfigurations of the identity provider.
   */
  checks = [
    (): Promise<HealthIndicatorResult> => this.check('file_storage', () => this.fileStorage.checkHealth()),
    (): Promise<HealthIndicatorResult> =>
      this.check(
        'identity_provider',
        () => this.checkIdentityProvider(),
        () => this.identityProvider.warnings,
      ),
  ];

  stop(): void {
    this.checks = [() => Promise.resolve(this.indicators.check('service').down({ stopping: true }))];
  }

  async isReady(): Promise<boolean> {
    return Object.values(await this.states()).every((state) => state !== 'down');
  }

  async states(): Promise<Readonly<Record<string, HealthState>>> {
    const results = await Promise.all(this.checks.map((check) => check()));
    const found = results.flatMap((result) => Object.entries(result));
    return Object.fromEntries(found.map(([name, { status, warnings }]) => [name, status === 'up' && warnings !== undefined ? 'degraded' : status]));
  }

  private async checkIdentityProvider(): Promise<void> {
    const provider = this.identityProvider.checkHealth({ signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    const tokens = this.accessTokens.checkHealth?.();
    await Promise.allSettled([provider, tokens]);
    // If both fail, the error of the provider's check is thrown, because it may name what must be repaired.
    await provider;
    await tokens;
  }

  private async check(name: string, probe: () => Promise<void>, warningsOf: () => readonly string[] = () => []): Promise<HealthIndicatorResult> {
    const indicator: Indicator = this.indicators.check(name);
    try {
      await withTimeLimit(HEALTH_CHECK_TIMEOUT_MS, probe, () => new Error(`no answer within ${HEALTH_CHECK_TIMEOUT_MS} ms`));
      if (this.unhealthy.delete(name)) this.logger.log({ msg: `${name} is healthy again` });
      const warnings = warningsOf();
      for (const line of this.notLoggedYet(name, warnings)) this.logger.warn({ msg: `${name}: ${line}` });
      return warnings.length > 0 ? (indicator.degraded?.({ warnings }) ?? indicator.up({ warnings })) : indicator.up();
    } catch (error) {
      const problems = error instanceof ProviderMisconfigured ? error.problems : [];
      for (const line of this.notLoggedYet(name, problems)) this.logger.error({ msg: `${name}: ${line}` });
      if (!this.unhealthy.has(name) && problems.length === 0) this.logger.error({ msg: `${name} is unhealthy`, reason: messageWithRootCause(error), err: error });
      this.unhealthy.add(name);
      return indicator.down(problems.length > 0 ? { problems } : {});
    }
  }

  private notLoggedYet(name: string, lines: readonly string[]): readonly string[] {
    const logged = this.logged.get(name) ?? [];
    this.logged.set(name, lines);
    return lines.filter((line) => !logged.includes(line));
  }
}
