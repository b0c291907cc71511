import 'reflect-metadata';
import type { NestApplicationOptions } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Environment } from '../configuration/service.js';
import type { TracingEnvironment } from '../configuration/tracing.js';
import { readVariables, type Variables } from '../configuration/variables.js';
import { HttpAdapter } from '../http/http.adapter.js';
import { createLogger, PinoLoggerService } from '../operations/logging.js';
import type { Tracing } from '../operations/tracing/tracing.js';
import { AppModule, type AppParts } from './app.module.js';
import { setUpApp } from './app.setup.js';
import { CreatedInstances } from './created-instances.js';
import { loadEnvironmentWithAdapters } from './load-environment.js';
import { tracedInstances } from './traced-instances.js';

export interface AppOptions extends AppParts {
  /**
   * The environment variables, by name. Default: those of the process, and for missing or empty ones those of the file
   * `.env`. FILE_STORAGE or EVENTS_WEBHOOK_URL is ignored if what it selects is replaced; IDENTITY_PROVIDER, only if
   * `authentication` is replaced too.
   */
  readonly environment?: Variables;
}

/** The variables that are ignored if the adapter is replaced. */
const VARIABLES = {
  fileStorage: ['FILE_STORAGE', 'AZURE_STORAGE_CONNECTION_STRING_FILE'],
  events: ['EVENTS_WEBHOOK_URL', 'EVENTS_WEBHOOK_SECRET', 'EVENTS_WEBHOOK_URL_FILE', 'EVENTS_WEBHOOK_SECRET_FILE'],
  identityProvider: ['IDENTITY_PROVIDER', 'EMBEDDED_ADMIN_SECRET', 'EMBEDDED_ADMIN_SECRET_FILE', 'KEYCLOAK_CLIENT_SECRET_FILE', 'AUTH0_CLIENT_SECRET_FILE'],
};

/**
 * Creates the whole service as a Nest application. The caller must call `listen` or `init`, and in the end `close`;
 * `serve` does all of this. If creating the application fails, the adapters that were opened for it are closed again.
 *
 * @throws EnvironmentError with one line for each problem of a variable or of a team's module; any error that such a
 * module's schema throws; errors of opening the adapters, and of locking DATA_DIR.
 */
export async function createApp({ environment, ...parts }: AppOptions = {}): Promise<NestExpressApplication> {
  const ignored = [
    ...(parts.fileStorage ? VARIABLES.fileStorage : []),
    ...(parts.events ? VARIABLES.events : []),
    ...(parts.identityProvider && parts.authentication ? VARIABLES.identityProvider : []),
  ];
  const hasOwnCode = Object.values(parts).some((part: unknown) => part !== undefined);
  return createAppFor(await loadEnvironmentWithAdapters({ ...(environment ?? readVariables()), ...Object.fromEntries(ignored.map((name) => [name, undefined])) }, hasOwnCode), parts);
}

/** Like `createApp`, with an environment that is already validated. */
export async function createAppFor(environment: Environment, parts: AppParts = {}): Promise<NestExpressApplication> {
  const tracing = environment.tracing && (await startTracing(environment.tracing));
  const logger = await createLogger(environment.logLevel, tracing?.logMembers);
  for (const warning of environment.warnings) logger.warn(warning);
  const nestLogger = new PinoLoggerService(logger, { every: environment.logSample, customers: environment.logCustomers, subjects: environment.logSubjects });
  const created = new CreatedInstances(nestLogger);
  const options: NestApplicationOptions = {
    // Nest parses bodies only for the routes of modules that a team adds (`imports`). The service reads the bodies of
    // its own operations itself.
    bodyParser: parts.imports !== undefined,
    abortOnError: false,
    logger: nestLogger,
    instrument: { instanceDecorator: tracing ? withTracing(tracing, created.record) : created.record },
  };
  try {
    const app = await NestFactory.create<NestExpressApplication>(AppModule.forRoot(environment, parts, tracing), new HttpAdapter(), options);
    tracing?.traceRequests(app.getHttpServer());
    setUpApp(app, environment);
    created.stop();
    return app;
  } catch (error) {
    await created.abandon();
    throw error;
  }
}

async function startTracing(environment: TracingEnvironment): Promise<Tracing> {
  const { Tracing } = await import('../operations/tracing/tracing.js');
  return Tracing.start(environment);
}

function withTracing(tracing: Tracing, record: (instance: unknown) => unknown): (instance: unknown) => unknown {
  const traced = tracedInstances(tracing);
  return (instance) => record(traced(instance));
}
