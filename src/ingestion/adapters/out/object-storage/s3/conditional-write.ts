import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { HeadObjectCommand, type HeadObjectCommandOutput } from '@aws-sdk/client-s3';
import type { S3Connection } from './s3-connection.js';
import { errorNameOf, orUndefined } from './s3-errors.js';

/** Pause before a write is repeated because it conflicted with another write of the same object, in milliseconds. */
const CONFLICT_PAUSE_MS = 100;
const CONFLICT_ATTEMPTS = 10;
/**
 * The metadata of an object by which a write recognizes the object as its own, if an answer was lost and the retry is
 * refused.
 */
const WRITE_ID = 'write-id';

/**
 * Error codes that mean that another write of the object was in progress. versitygw also answers with
 * `ExistingObjectIsDirectory` while the last other object of the same directory is being removed. A retry of the write
 * may succeed.
 */
const CONFLICTS: ReadonlySet<string> = new Set(['ConditionalRequestConflict', 'ExistingObjectIsDirectory']);

/**
 * Error codes with which the store refuses a write. `NoSuchKey`: the object whose version was to be replaced is gone.
 * `NoSuchUpload`: the multipart upload no longer exists, usually because an earlier attempt has completed it.
 */
const REFUSALS: ReadonlySet<string> = new Set([
  'PreconditionFailed',
  ...CONFLICTS,
  'NoSuchKey',
  'NoSuchUpload',
]);

/**
 * A conditional write of one object. If the answer to the first attempt was lost, a repeated write is refused because
 * of the object that the first one wrote. The write recognizes this object by an id in its metadata.
 */
export class ConditionalWrite {
  private readonly id = randomUUID();

  constructor(
    private readonly connection: S3Connection,
    private readonly key: string,
  ) {}

  /** The bucket, key and metadata of the object, as members of the request that creates it. */
  get object(): { readonly Bucket: string; readonly Key: string; readonly Metadata: Record<string, string> } {
    return { ...this.connection.at(this.key), Metadata: { [WRITE_ID]: this.id } };
  }

  /**
   * Performs the write, and repeats it after conflicts with other writes, at most ten attempts in all.
   *
   * @param write sends the request. The object must get the metadata of `object`.
   * @returns the store's answer, or what the store says of the object if an earlier attempt wrote it; undefined if the
   *   store refused the write.
   * @throws any error of `write` that is no refusal, and the last conflict.
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
        await sleep(CONFLICT_PAUSE_MS);
      }
    }
  }
}
