import 'reflect-metadata';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app.module.js';
import { setUpApp } from './app.setup.js';
import { DataDirectoryInUseError } from './data-directory/data-directory-lock.js';
import { baseUrl, type Environment, EnvironmentError, loadEnvironment } from './environment.js';
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

/** What is wrong with how the service was started is one line each; anything else is a defect, with its stack. */
function explain(error: unknown): string {
  if (error instanceof EnvironmentError) return error.problems.join('\n');
  if (error instanceof DataDirectoryInUseError || !(error instanceof Error)) return String(error).replace(/^\w+: /, '');
  if (!('code' in error)) return error.stack ?? error.message;
  const variable = 'syscall' in error && error.syscall === 'listen' ? 'HOST, PORT' : 'DATA_DIR';
  return `${variable}: ${error.message.replaceAll(/\s+/g, ' ')}`;
}

exitOnSignal();
try {
  await boot(loadEnvironment());
} catch (error) {
  process.stderr.write(`${explain(error)}\n`);
  process.exit(1);
}
