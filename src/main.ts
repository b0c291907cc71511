import 'reflect-metadata';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app/app.module.js';
import { setUpApp } from './app/app.setup.js';
import { ServiceError } from './common/service-error.js';
import { DataDirectoryError } from './common/data-directory/data-directory-error.js';
import { DataDirectoryInUseError } from './common/data-directory/data-directory-lock.js';
import { type CodedError, explainFailure } from './common/data-directory/explain-failure.js';
import { baseUrl } from './configuration/served-address.js';
import { type Environment, loadEnvironment } from './configuration/service.js';
import { EnvironmentError } from './configuration/variables.js';
import { HttpAdapter } from './http/http.adapter.js';
import { Readiness } from './operations/health/readiness.js';
import { createLogger, PinoLoggerService } from './operations/logging.js';
import { readyLine } from './operations/ready-line.js';
import { ServiceAddress } from './operations/service-address.js';
import { exitOnSignal, shutDownOnSignal } from './operations/shutdown.js';

const READINESS_INTERVAL_MS = 1_000;

async function boot(environment: Environment): Promise<void> {
  const logger = createLogger(environment.logLevel);
  for (const warning of environment.warnings) logger.warn(warning);
  const options = { bodyParser: false, abortOnError: false, logger: new PinoLoggerService(logger) };
  const app = await NestFactory.create<NestExpressApplication>(AppModule.forRoot(environment), new HttpAdapter(), options);
  setUpApp(app, environment);
  await app.init();
  const server: Server = app.getHttpServer();
  shutDownOnSignal(app, server, environment.shutdownTimeoutMs, logger);
  await app.listen(environment.port, environment.host);
  const { port } = server.address() as AddressInfo;
  await app.get(ServiceAddress).announce(baseUrl(environment, port));

  while (!(await app.get(Readiness).isReady())) await delay(READINESS_INTERVAL_MS);
  process.stdout.write(`${readyLine(environment, port)}\n`);
}

/**
 * Configuration errors and an unusable DATA_DIR are explained in one line each. Anything else is a bug and is printed
 * with its stack.
 */
function explain(error: unknown, dataDirectory: string): string {
  if (error instanceof EnvironmentError) return error.problems.join('\n');
  if (error instanceof DataDirectoryInUseError) return error.message;
  if (error instanceof DataDirectoryError) return oneLine(`DATA_DIR: ${error.message}`);
  if (error instanceof ServiceError && isCoded(error.cause)) return oneLine(`DATA_DIR: ${error.message} ${explainFailure(error.cause, dataDirectory)}`);
  if (!isCoded(error)) return error instanceof Error ? (error.stack ?? error.message) : String(error);
  if ('syscall' in error && error.syscall === 'listen') return oneLine(`HOST, PORT: ${error.message}`);
  return oneLine(`DATA_DIR: ${explainFailure(error, dataDirectory)}`);
}

const isCoded = (error: unknown): error is CodedError => error instanceof Error && 'code' in error && typeof error.code === 'string';

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ');

exitOnSignal();
let dataDirectory = '';
try {
  const environment = loadEnvironment();
  ({ dataDirectory } = environment);
  await boot(environment);
} catch (error) {
  process.stderr.write(`${explain(error, dataDirectory)}\n`);
  process.exit(1);
}
