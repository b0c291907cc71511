import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { HeadObjectCommand, type HeadObjectCommandOutput } from '@aws-sdk/client-s3';
import type { S3Connection } from './s3-connection.js';
import { errorNameOf, orUndefined } from './s3-errors.js';

const CONFLICT_PAUSE_MS = 100;
const CONFLICT_ATTEMPTS = 10;
const WRITE_ID = 'write-id';

/**
 * Errors after which a retry may succeed. `ConditionalRequestConflict`: another write of the object was in progress.
 * `ExistingObjectIsDirectory`: versitygw answers this while the last other object of the same directory is being
 * removed.
 */
const CONFLICTS: ReadonlySet<string> = new Set(['ConditionalRequestConflict', 'ExistingObjectIsDirectory']);

/**
 * Errors by which a store refuses a write. `NoSuchKey`: the object to be replaced is missing. `NoSuchUpload`: the
 * multipart upload no longer exists, usually because an earlier attempt has completed it.
 */
export const REFUSALS: ReadonlySet<string> = new Set([
  'PreconditionFailed',
  ...CONFLICTS,
  'NoSuchKey',
  'NoSuchUpload',
]);

/**
 * A write of one object, usually a conditional one. If the answer to a successful attempt was lost, the store may
 * refuse the next attempt because of the object that the first one wrote. By an id in the object's metadata, the write
 * recognizes this object as its own.
 */
export class ConditionalWrite {
  private readonly id = randomUUID();

  constructor(
    private readonly connection: S3Connection,
    private readonly key: string,
  ) {}

  get object(): { readonly Bucket: string; readonly Key: string; readonly Metadata: Record<string, string> } {
    return { ...this.connection.at(this.key), Metadata: { [WRITE_ID]: this.id } };
  }

  /**
   * Performs the write, and repeats it after conflicts, at most ten attempts in all.
   *
   * @param write must give the object the metadata of `object`.
   * @returns the answer to the write, or, if an earlier attempt wrote the object, to a request for its metadata;
   *   undefined if the store refused the write for good.
   * @throws an error of `write` that is no refusal; the last conflict; `NoSuchUpload` if no object is at the key; an
   *   error of the request for the metadata.
   */
  async perform<Output extends { readonly ETag?: string | undefined }>(
    write: () => Promise<Output>,
  ): Promise<Output | HeadObjectCommandOutput | undefined> {
    const { connection } = this;
    for (let attempt = 1; ; attempt++) {
      try {
        return await write();
      } catch (error) {
        const name = errorNameOf(error);
        if (!REFUSALS.has(name)) throw error;
        const found = await connection.within((options) =>
          orUndefined(connection.client.send(new HeadObjectCommand(connection.at(this.key)), options)),
        );
        if (found?.Metadata?.[WRITE_ID] === this.id) return found;
        if (name === 'NoSuchUpload' && !found) throw error;
        if (!CONFLICTS.has(name)) return undefined;
        if (attempt === CONFLICT_ATTEMPTS) throw error;
        await delay(CONFLICT_PAUSE_MS);
        connection.onRetry();
      }
    }
  }
}
