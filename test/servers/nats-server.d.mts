import type { Server, ServerOptions } from './server.mjs';

/** NATS with JetStream on the loopback interface. Acknowledged messages survive `kill()`. */
export interface NatsServer extends Server {
  /** The address for clients, `nats://host:port`. `endpoint` is the address for monitoring. */
  readonly url: string;
}

export function isNatsServerAvailable(): boolean;
export function installNatsServer(): Promise<void>;
export function startNatsServer(options?: ServerOptions): Promise<NatsServer>;
