import type { Server, ServerOptions } from './server.mjs';

/** Azure Blob Storage on the loopback interface. It keeps metadata in memory for some seconds, so `kill()` can lose blobs and containers. */
export interface Azurite extends Server {
  readonly connectionString: string;
  /** Rejects if the container exists. */
  createContainer(name: string): Promise<void>;
}

export function startAzurite(options?: ServerOptions): Promise<Azurite>;
