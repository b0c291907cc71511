import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { Test, type TestingModuleBuilder } from '@nestjs/testing';
import { AppModule } from '../../src/app/app.module.js';
import { setUpApp } from '../../src/app/app.setup.js';
import { baseUrl } from '../../src/configuration/served-address.js';
import { parseEnvironment } from '../../src/configuration/service.js';
import { HttpAdapter } from '../../src/http/http.adapter.js';
import { TokenIssuer } from '../../src/identity-management/adapters/out/embedded/token-issuer.js';
import { ServiceAddress } from '../../src/operations/service-address.js';
import { CollectingLogger } from './collecting-logger.js';
import { writeSigningKeys } from './signing-keys.js';

export interface RunningService {
  readonly app: NestExpressApplication;
  readonly url: string;
  readonly port: number;
  readonly dataDirectory: string;
  readonly log: CollectingLogger;
  adminToken(customerIds?: string[]): Promise<string>;
  lines(): Promise<Record<string, unknown>[]>;
  line(uploadId: string): Promise<Record<string, unknown> | undefined>;
  files(folder: string): Promise<string[]>;
  close(): Promise<void>;
}

/**
 * Starts the whole service in this process, on a free port and, unless DATA_DIR is given, with a new data directory.
 */
export async function startService(
  variables: Record<string, string> = {},
  customize: (builder: TestingModuleBuilder) => TestingModuleBuilder = (builder) => builder,
): Promise<RunningService> {
  const dataDirectory = variables.DATA_DIR ?? (await newDataDirectory(variables));
  const environment = parseEnvironment({ PORT: '0', ...variables, DATA_DIR: dataDirectory });
  const module = await customize(Test.createTestingModule({ imports: [AppModule.forRoot(environment)] })).compile();
  const log = new CollectingLogger();
  const app = module.createNestApplication<NestExpressApplication>(new HttpAdapter(), { bodyParser: false });
  app.useLogger(log);
  setUpApp(app, environment);
  await app.listen(0, environment.host);
  const server: Server = app.getHttpServer();
  const { port } = server.address() as AddressInfo;
  const url = baseUrl(environment, port);
  await app.get(ServiceAddress).announced;

  const files = async (folder: string): Promise<string[]> => {
    const entries = await readdir(join(dataDirectory, folder), { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  };
  const indexLines = async (): Promise<string[]> => {
    const segments = await Promise.all((await files('uploads')).map((file) => readFile(file, 'utf8')));
    return segments.flatMap((segment) => segment.split('\n').filter(Boolean));
  };
  return {
    app,
    url,
    port,
    dataDirectory,
    log,
    files,
    adminToken: (customerIds) => app.get(TokenIssuer, { strict: false }).administratorToken(customerIds),
    lines: async () => (await indexLines()).map((line) => JSON.parse(line) as Record<string, unknown>),
    line: async (uploadId) => {
      const found = (await indexLines()).filter((line) => line.includes(uploadId)).map((line) => JSON.parse(line) as Record<string, unknown>);
      return found.find(({ upload_id }) => upload_id === uploadId);
    },
    close: async () => {
      server.closeAllConnections();
      await app.close();
      if (variables.DATA_DIR === undefined) await rm(dataDirectory, { recursive: true, force: true });
    },
  };
}

async function newDataDirectory({ IDENTITY_PROVIDER = 'embedded' }: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'load-data-'));
  if (IDENTITY_PROVIDER === 'embedded') await writeSigningKeys(directory);
  return directory;
}
