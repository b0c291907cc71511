// Installs and starts Azurite, an Azure Blob Storage server. `node test/servers/azurite.mjs` runs one until it is
// interrupted.
import { join } from 'node:path';
import { BlobServiceClient } from '@azure/storage-blob';
import { installLockedPackage } from './npm-package.mjs';
import { freePort, serveShell, Server } from './server.mjs';

/** Azurite's lock file is here: as a development dependency, Azurite would add two hundred packages. */
const MANIFESTS = join(import.meta.dirname, 'azurite');
/** The name of Azurite's usual storage account, and two keys, because an account of Azure has two. */
const ACCOUNT = 'devstoreaccount1';
const KEYS = [
  'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==',
  Buffer.alloc(64, 'second key').toString('base64'),
];

class Azurite extends Server {
  get connectionString() {
    return this.connectionStringWith(KEYS[0]);
  }

  get secondConnectionString() {
    return this.connectionStringWith(KEYS[1]);
  }

  connectionStringWith(key) {
    return `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${key};BlobEndpoint=${this.endpoint}/${ACCOUNT};`;
  }

  async createContainer(name) {
    await BlobServiceClient.fromConnectionString(this.connectionString).createContainer(name);
  }
}

export const installAzurite = () => installLockedPackage('azurite-3.35.0', MANIFESTS, 'azurite', 'dist/src/blob/main.js');

/**
 * Starts an Azurite, and installs it before if needed. Rejects if it can't be installed or doesn't start.
 *
 * @param {{ log?: (text: string) => void }} [options]
 * @returns {Promise<import('./azurite.mjs').Azurite>}
 */
export async function startAzurite({ log } = {}) {
  const program = await installAzurite();
  const port = await freePort();
  const server = new Azurite('Azurite', port, log);
  const options = ['--blobHost', '127.0.0.1', '--blobPort', `${port}`, '--location', server.directory];
  // Azurite knows only older versions of the API than the one that the SDK requests. Without `--skipApiVersionCheck` it
  // would refuse the SDK's requests.
  await server.start(process.execPath, [program, ...options, '--skipApiVersionCheck', '--silent', '--disableTelemetry'], { AZURITE_ACCOUNTS: [ACCOUNT, ...KEYS].join(':') });
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
