import type { Server, ServerOptions } from './server.mjs';

/** An S3 server on the loopback interface. Requires `forcePathStyle`. Acknowledged objects survive `kill()`. */
export interface Versitygw extends Server {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  /** The environment of a service that stores uploads in one of its buckets. */
  environment(bucket: string): Record<string, string>;
  /** Creates a bucket. Rejects if it exists. */
  createBucket(name: string): Promise<void>;
  /** Replaces objects of a bucket, by key, or creates them. */
  replaceObjects(bucket: string, objects: Iterable<readonly [key: string, bytes: Uint8Array]>): Promise<void>;
  /** Creates a user with the rights in a bucket's policy, which names the user by the access key id. Requires `iam`. */
  createUser(accessKeyId: string, secretAccessKey: string): Promise<void>;
  /** Deletes a user. The store refuses the user's requests from then on. Requires `iam`. */
  deleteUser(accessKeyId: string): Promise<void>;
  /** Gives these users, and no others, all rights in a bucket: replaces the bucket's policy. */
  allowOnly(accessKeyIds: readonly string[], bucket: string): Promise<void>;
}

export interface VersitygwOptions extends ServerOptions {
  /** Whether users besides the root user can be created. */
  iam?: boolean;
}

export function isVersitygwAvailable(): boolean;
export function installVersitygw(): Promise<void>;
export function startVersitygw(options?: VersitygwOptions): Promise<Versitygw>;
