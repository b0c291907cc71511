import { type DynamicModule, Module, type Type } from '@nestjs/common';
import { APP_GUARD, Reflector } from '@nestjs/core';
import { TerminusModule } from '@nestjs/terminus';
import { ThrottlerModule } from '@nestjs/throttler';
import { baseUrl } from '../configuration/served-address.js';
import type { Environment } from '../configuration/service.js';
import { eventsFor } from './events.factory.js';
import { fileStorageFor } from './file-storage.factory.js';
import { POSSIBLE_VOLUMES } from '../ingestion/adapters/out/local-disk/store-directory.js';
import { OriginGuard } from '../http/origin.guard.js';
import { onlyWithHeader } from '../http/request-head.js';
import { WholeApplicationModule } from '../http/whole-application.module.js';
import { RateLimitGuard, rateLimit } from '../operations/rate-limit.js';
import { IdentityManagementModule } from '../identity-management/identity-management.module.js';
import type { IdentityProvider } from '../identity-management/application/ports/identity-provider.port.js';
import { identityProviderFor } from './identity-provider.factory.js';
import type { FileStorage } from '../ingestion/application/ports/file-storage.port.js';
import type { UploadEvents } from '../ingestion/application/ports/upload-events.port.js';
import { IngestionModule } from '../ingestion/ingestion.module.js';
import { HealthController } from '../operations/health/health.controller.js';
import { Readiness } from '../operations/health/readiness.js';
import { MetricsController } from '../operations/metrics/metrics.controller.js';
import { RequestMetrics } from '../operations/metrics/request-metrics.js';
import { MeasuredDirectories, StateMetrics } from '../operations/metrics/state-metrics.js';
import { OperationsModule } from '../operations/operations.module.js';
import type { Tracing } from '../operations/tracing/tracing.js';
import { ServiceAddress } from '../operations/service-address.js';
import { type Imports, provideReplacement, type Replacement } from './replacement.js';
import { TracingModule } from './tracing.module.js';

export const ENVIRONMENT = Symbol('environment');

/**
 * Adapters instead of those that FILE_STORAGE, EVENTS_WEBHOOK_URL and IDENTITY_PROVIDER select, another check of access
 * tokens, and Nest modules to add to the service.
 */
export interface AppParts {
  readonly fileStorage?: Replacement<FileStorage> | undefined;
  readonly events?: Replacement<UploadEvents> | undefined;
  readonly identityProvider?: Replacement<IdentityProvider> | undefined;
  /**
   * A module that replaces the check of access tokens. It exports `AccessTokenVerifier`, as
   * `AuthenticationModule.forRoot(...)` does.
   */
  readonly authentication?: DynamicModule | Type | undefined;
  /** Nest modules to add to the service. The adapters given here may inject what these modules export. */
  readonly imports?: Imports | undefined;
}

/** The root module of the whole service. */
@Module({})
export class AppModule {
  static forRoot(environment: Environment, { imports: own = [], ...parts }: AppParts = {}, tracing?: Tracing): DynamicModule {
    const { maxUploadBytes, maxJsonBytes, rateLimitPerMinute, requestIdleTimeoutMs: idleTimeoutMs, retentionDays } = environment;
    const storage = fileStorageFor(environment, parts.fileStorage && provideReplacement(parts.fileStorage, own), tracing);
    const { imports: importsOfEvents, events } = eventsFor(environment, parts.events && provideReplacement(parts.events, own));
    const { imports, identityProvider, ...chosen } = identityProviderFor(environment, {
      provider: parts.identityProvider && provideReplacement(parts.identityProvider, own),
      authentication: parts.authentication,
    });
    // The authentication module is global, so that controllers in the modules that a team adds (`AppParts.imports`) can
    // use PermissionGuard.
    const authentication = { ...(typeof chosen.authentication === 'function' ? { module: chosen.authentication } : chosen.authentication), global: true };
    return {
      module: AppModule,
      imports: [
        ...(tracing ? [TracingModule.forRoot(tracing)] : []),
        WholeApplicationModule,
        OperationsModule,
        TerminusModule.forRoot({ logger: false }),
        ...(rateLimitPerMinute > 0 ? [ThrottlerModule.forRoot(rateLimit(rateLimitPerMinute))] : []),
        IngestionModule.forRootAsync({
          ...storage,
          imports: [...storage.imports, ...importsOfEvents],
          events,
          authentication,
          openUploads: environment.ingestionAuthorization === 'open',
          inject: [ServiceAddress],
          useFactory: ({ known: baseUrl }: ServiceAddress) => ({ maxUploadBytes, maxJsonBytes, idleTimeoutMs, retentionDays, baseUrl }),
        }),
        IdentityManagementModule.forRootAsync({
          imports,
          identityProvider,
          authentication,
          useFactory: () => ({ maxJsonBytes, idleTimeoutMs }),
        }),
        ...own,
      ],
      controllers: [HealthController, MetricsController],
      providers: [
        { provide: ENVIRONMENT, useValue: environment },
        Readiness,
        RequestMetrics,
        { provide: MeasuredDirectories, useValue: new MeasuredDirectories(usesDataDirectory(environment) ? environment.dataDirectory : undefined, POSSIBLE_VOLUMES) },
        StateMetrics,
        // Nest runs global guards in the order in which they are listed, so the rate limit is checked first.
        ...(rateLimitPerMinute > 0 ? [{ provide: APP_GUARD, useClass: RateLimitGuard }] : []),
        {
          provide: APP_GUARD,
          inject: [Reflector],
          useFactory: (reflector: Reflector) =>
            onlyWithHeader(
              'origin',
              new OriginGuard(reflector, {
                corsOrigins: environment.corsOrigins,
                baseUrl: (port = environment.port) => baseUrl(environment, port),
              }),
            ),
        },
      ],
    };
  }
}

const usesDataDirectory = ({ fileStorage, identityProvider }: Environment): boolean => fileStorage.adapter === 'local' || identityProvider.adapter === 'embedded';
