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
  /** One who may do what a bucket's policy allows them; its access key id is its name there. Wants `iam`. */
  createUser(accessKeyId: string, secretAccessKey: string): Promise<void>;
}

export interface VersitygwOptions extends ServerOptions {
  /** Whether there can be users beside the root. */
  iam?: boolean;
}

export function isVersitygwAvailable(): boolean;
export function installVersitygw(): Promise<void>;
export function startVersitygw(options?: VersitygwOptions): Promise<Versitygw>;
