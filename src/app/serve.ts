import 'reflect-metadata';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { baseUrl } from '../configuration/served-address.js';
import type { Environment } from '../configuration/service.js';
import { HttpAdapter } from '../http/http.adapter.js';
import { Readiness } from '../operations/health/readiness.js';
import { createLogger, PinoLoggerService } from '../operations/logging.js';
import { readyLine } from '../operations/ready-line.js';
import { ServiceAddress } from '../operations/service-address.js';
import { shutDownOnSignal } from '../operations/shutdown.js';
import { AppModule } from './app.module.js';
import { setUpApp } from './app.setup.js';

const READINESS_INTERVAL_MS = 1_000;

/**
 * Starts the service. Resolves once the service is ready and has announced this on standard output.
 *
 * @throws errors of the environment, of DATA_DIR, and of listening.
 */
export async function serve(environment: Environment): Promise<void> {
  const logger = await createLogger(environment.logLevel);
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
