import { type DynamicModule, Module } from '@nestjs/common';
import { APP_GUARD, Reflector } from '@nestjs/core';
import { TerminusModule } from '@nestjs/terminus';
import { ThrottlerModule } from '@nestjs/throttler';
import { baseUrl } from '../configuration/served-address.js';
import type { Environment } from '../configuration/service.js';
import { fileStorageFor } from './file-storage.factory.js';
import { OriginGuard } from '../http/origin.guard.js';
import { RateLimitGuard, rateLimit } from '../operations/rate-limit.js';
import { IdentityManagementModule } from '../identity-management/identity-management.module.js';
import { identityProviderFor } from './identity-provider.factory.js';
import { IngestionModule } from '../ingestion/ingestion.module.js';
import { HealthController } from '../operations/health/health.controller.js';
import { Readiness } from '../operations/health/readiness.js';
import { MetricsController } from '../operations/metrics/metrics.controller.js';
import { RequestMetrics } from '../operations/metrics/request-metrics.js';
import { OperationsModule } from '../operations/operations.module.js';

/** The whole service: both features, with the adapters that the environment selects. */
@Module({})
export class AppModule {
  static forRoot(environment: Environment): DynamicModule {
    const { maxUploadBytes, maxJsonBytes, rateLimitPerMinute, requestIdleTimeoutMs: idleTimeoutMs, retentionDays } = environment;
    const { imports, identityProvider, authentication } = identityProviderFor(environment);
    return {
      module: AppModule,
      imports: [
        OperationsModule,
        TerminusModule.forRoot({ logger: false }),
        ...(rateLimitPerMinute > 0 ? [ThrottlerModule.forRoot(rateLimit(rateLimitPerMinute))] : []),
        IngestionModule.forRoot({
          fileStorage: fileStorageFor(environment),
          authentication,
          openUploads: environment.ingestionAuthorization === 'open',
          maxUploadBytes,
          maxJsonBytes,
          idleTimeoutMs,
          retentionDays,
        }),
        IdentityManagementModule.forRootAsync({
          imports,
          identityProvider,
          authentication,
          useFactory: () => ({ maxJsonBytes, idleTimeoutMs }),
        }),
      ],
      controllers: [HealthController, MetricsController],
      providers: [
        Readiness,
        RequestMetrics,
        // Guards run in this order.
        ...(rateLimitPerMinute > 0 ? [{ provide: APP_GUARD, useClass: RateLimitGuard }] : []),
        {
          provide: APP_GUARD,
          inject: [Reflector],
          useFactory: (reflector: Reflector) =>
            new OriginGuard(reflector, {
              corsOrigins: environment.corsOrigins,
              baseUrl: (port = environment.port) => baseUrl(environment, port),
            }),
        },
      ],
    };
  }
}
