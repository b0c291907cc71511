import type { Server, ServerOptions } from './server.mjs';

/** S3 on the loopback; wants `forcePathStyle`. What it has acknowledged survives `kill()`. */
export interface Versitygw extends Server {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  /** What the service's environment says to keep uploads in a bucket of it. */
  environment(bucket: string): Record<string, string>;
  /** Rejects when there is one of that name. */
  createBucket(name: string): Promise<void>;
}

export function isVersitygwAvailable(): boolean;
export function installVersitygw(): Promise<void>;
export function startVersitygw(options?: ServerOptions): Promise<Versitygw>;
