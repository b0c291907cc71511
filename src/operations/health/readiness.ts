import { Injectable, Logger } from '@nestjs/common';
import { type HealthIndicatorResult, HealthIndicatorService } from '@nestjs/terminus';
import { withTimeLimit } from '../../common/time-limit.js';
import { IdentityProvider } from '../../identity-management/application/ports/identity-provider.port.js';
import { FileStorage } from '../../ingestion/application/ports/file-storage.port.js';

const CHECK_TIMEOUT_MS = 5_000;

/** Whether what the service stands on is well: the file storage can be written, the identity provider answers. */
@Injectable()
export class Readiness {
  private readonly logger = new Logger(Readiness.name);
  private readonly unwell = new Set<string>();

  constructor(
    private readonly indicators: HealthIndicatorService,
    private readonly fileStorage: FileStorage,
    private readonly identityProvider: IdentityProvider,
  ) {}

  /** Answers within five seconds each; the reason of a failure is for the log alone. */
  readonly checks = [
    (): Promise<HealthIndicatorResult> => this.check('file_storage', () => this.fileStorage.checkHealth()),
    (): Promise<HealthIndicatorResult> =>
      this.check('identity_provider', () => this.identityProvider.checkHealth({ signal: AbortSignal.timeout(CHECK_TIMEOUT_MS) })),
  ];

  async isReady(): Promise<boolean> {
    const results = await Promise.all(this.checks.map((check) => check()));
    return results.every((result) => Object.values(result).every(({ status }) => status === 'up'));
  }

  private async check(name: string, probe: () => Promise<void>): Promise<HealthIndicatorResult> {
    const indicator = this.indicators.check(name);
    try {
      await withTimeLimit(CHECK_TIMEOUT_MS, probe(), () => new Error(`no answer within ${CHECK_TIMEOUT_MS} ms`));
      if (this.unwell.delete(name)) this.logger.log({ msg: `${name} is well again` });
      return indicator.up();
    } catch (error) {
      if (!this.unwell.has(name)) this.logger.error({ msg: `${name} is unwell`, err: error });
      this.unwell.add(name);
      return indicator.down();
    }
  }
}
