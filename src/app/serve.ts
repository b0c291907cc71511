import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { dropOutputWithoutReader } from '../common/output-without-reader.js';
import type { Environment } from '../configuration/service.js';
import { IngestionModule } from '../ingestion/ingestion.module.js';
import { Readiness } from '../operations/health/readiness.js';
import { readyLine } from '../operations/ready-line.js';
import { ServiceAddress } from '../operations/service-address.js';
import { shutDownOnSignal } from '../operations/shutdown.js';
import { returnUnusedMemory } from '../operations/unused-memory.js';
import { ENVIRONMENT } from './app.module.js';

const READINESS_INTERVAL_MS = 1_000;

/**
 * Serves an application of `createApp` on HOST and PORT, until SIGTERM or SIGINT (see `shutDownOnSignal`). Resolves
 * once the service is ready and has printed its ready line on standard output.
 *
 * @throws errors of initializing the application, and of listening.
 */
export async function serve(app: NestExpressApplication): Promise<void> {
  dropOutputWithoutReader();
  const environment = app.get<Environment>(ENVIRONMENT);
  await app.init();
  shutDownOnSignal(app, environment, () => app.get(IngestionModule, { strict: false }).finishDeliveries());
  await app.listen(environment.port, environment.host);
  await app.get(ServiceAddress).announced;
  while (!(await app.get(Readiness).isReady())) await delay(READINESS_INTERVAL_MS);
  const server: Server = app.getHttpServer();
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${readyLine(environment, port)}\n`);
  await returnUnusedMemory();
}
