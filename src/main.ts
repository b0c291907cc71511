import 'reflect-metadata';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app.module.js';
import { setUpApp } from './app.setup.js';
import { DataDirectoryError } from './data-directory/data-directory-error.js';
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
  if (error instanceof DataDirectoryError) return `DATA_DIR: ${error.message.replaceAll(/\s+/g, ' ')}`;
  if (error instanceof DataDirectoryInUseError || !(error instanceof Error)) return String(error).replace(/^\w+: /, '');
  if (!('code' in error)) return error.stack ?? error.message;
  const variable = 'syscall' in error && error.syscall === 'listen' ? 'HOST, PORT' : 'DATA_DIR';
  return `${variable}: ${error.message.replaceAll(/\s+/g, ' ')}${adviceFor(String(error.code))}`;
}

function adviceFor(code: string): string {
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return ': let the user that runs the service read and write there, or set DATA_DIR to another directory';
    case 'EROFS':
      return ': mount it for writing, or set DATA_DIR to a directory that can be written';
    case 'ENOSPC':
    case 'EDQUOT':
      return ': free some space there';
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ELOOP':
    case 'ENAMETOOLONG':
      return ': set DATA_DIR to a directory that can be made';
    default:
      return '';
  }
}

exitOnSignal();
try {
  await boot(loadEnvironment());
} catch (error) {
  process.stderr.write(`${explain(error)}\n`);
  process.exit(1);
}
