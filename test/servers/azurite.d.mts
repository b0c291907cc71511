import type { Server, ServerOptions } from './server.mjs';

/**
 * Azurite, an Azure Blob Storage on the loopback interface. It keeps metadata in memory for some seconds, so `kill()`
 * can lose blobs and containers.
 */
export interface Azurite extends Server {
  /** The connection string with the first key of the account. */
  readonly connectionString: string;
  /** The connection string with the second key of the account. */
  readonly secondConnectionString: string;
  connectionStringWith(key: string): string;
  /** Creates a container. Rejects if it exists. */
  createContainer(name: string): Promise<void>;
}

export function startAzurite(options?: ServerOptions): Promise<Azurite>;
