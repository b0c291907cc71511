import type { Server, ServerOptions } from './server.mjs';

/** Azure's blobs on the loopback. It keeps what it knows of them in memory for some seconds: `kill()` can lose blobs and containers. */
export interface Azurite extends Server {
  readonly connectionString: string;
  /** Rejects when there is one of that name. */
  createContainer(name: string): Promise<void>;
}

export function startAzurite(options?: ServerOptions): Promise<Azurite>;
