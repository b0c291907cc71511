// Starts Azurite, an Azure Blob Storage server. `node test/servers/azurite.mjs` runs one until it is interrupted.
import { createRequire } from 'node:module';
import { BlobServiceClient } from '@azure/storage-blob';
import { freePort, serveShell, Server } from './server.mjs';

const PROGRAM = createRequire(import.meta.url).resolve('azurite/dist/src/blob/main.js');
/** The name of the storage account that every Azurite has. */
const ACCOUNT = 'devstoreaccount1';
const KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==';

class Azurite extends Server {
  get connectionString() {
    return `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};BlobEndpoint=${this.endpoint}/${ACCOUNT};`;
  }

  async createContainer(name) {
    await BlobServiceClient.fromConnectionString(this.connectionString).createContainer(name);
  }
}

/**
 * Starts an Azurite. Rejects if it doesn't start.
 *
 * @param {{ log?: (text: string) => void }} [options]
 * @returns {Promise<import('./azurite.mjs').Azurite>}
 */
export async function startAzurite({ log } = {}) {
  const port = await freePort();
  const server = new Azurite('Azurite', port, log);
  const options = ['--blobHost', '127.0.0.1', '--blobPort', `${port}`, '--location', server.directory];
  // Azurite knows only older versions of the API than the one that the SDK requests. Without `--skipApiVersionCheck` it
  // would refuse the SDK's requests.
  await server.start(process.execPath, [PROGRAM, ...options, '--skipApiVersionCheck', '--silent', '--disableTelemetry']);
  return server;
}

if (process.argv[1] === import.meta.filename) {
  await serveShell(async () => {
    const server = await startAzurite();
    const container = 'load-data';
    await server.createContainer(container);
    return { server, variables: { AZURE_STORAGE_CONTAINER: container, AZURE_STORAGE_CONNECTION_STRING: server.connectionString } };
  });
}
