import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  DeleteObjectsCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { MIB } from '../../../../../common/sizes.js';
import { Bucket, type ByteRange, type ListedObject, missingRight, newDirectories, newKeys, type ReadObject, significantOffset } from '../bucket.js';
import { PartMemory } from '../part-memory.js';
import { wholeBody } from '../whole-body.js';
import { crc32Of } from './checksums.js';
import { ConditionalWrite } from './conditional-write.js';
import { Leftovers } from './leftovers.js';
import { MultipartUpload } from './multipart-upload.js';
import { getObject, getWholeObject, putObject } from './object-requests.js';
import { S3Connection, type S3ConnectionOptions } from './s3-connection.js';
import { errorNameOf, isForbidden, orUndefined } from './s3-errors.js';
import { removeParts } from './unfinished-parts.js';

export interface S3BucketOptions extends S3ConnectionOptions {
  /**
   * The longest file, in bytes. It determines the length of parts: the store accepts at most 10,000 parts of an upload.
   */
  readonly maxUploadBytes: number;
  readonly pageSize?: number;
}

type ListOptions = Pick<ListObjectsV2CommandInput, 'Delimiter' | 'StartAfter'>;

/** The minimum length that S3 demands of each part of an upload but the last. */
const MIN_PART_BYTES = 5 * MIB;
const MAX_PARTS = 10_000;
const MAX_REMOVED_AT_ONCE = 1000;
const READ_ATTEMPTS = 3;
/** An id that no multipart upload has. Aborting it shows whether the store permits aborting uploads. */
const NO_UPLOAD_ID = 'bm9uZQ';

/**
 * A bucket of S3, or of another store with the S3 protocol that supports `If-None-Match` and `If-Match`. An object's
 * version is its ETag, which is often the same for the same bytes. An iterator from `open` loses its connection if its
 * reader pauses for longer than the time-out.
 */
export class S3Bucket extends Bucket {
  private readonly connection: S3Connection;
  private readonly leftovers = new Leftovers();
  private readonly memory: PartMemory;
  private readonly pageSize: number | undefined;

  constructor({ maxUploadBytes, pageSize, ...options }: S3BucketOptions) {
    super();
    this.connection = new S3Connection(options);
    this.memory = new PartMemory(Math.max(MIN_PART_BYTES, Math.ceil(maxUploadBytes / MAX_PARTS)));
    this.pageSize = pageSize;
  }

  override get clockOffsetMs(): number {
    return significantOffset(this.storeTime - Date.now());
  }

  override get storeTime(): number {
    return this.connection.watch.storeTime;
  }

  override async create(key: string, bytes: Uint8Array): Promise<string | undefined> {
    return this.put(key, bytes, { IfNoneMatch: '*' });
  }

  override async replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined> {
    return this.put(key, bytes, version === undefined ? {} : { IfMatch: version });
  }

  override async upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const { connection, memory, leftovers } = this;
    await new MultipartUpload({ connection, memory, leftovers }, key).send(bytes);
  }

  override async read(key: string): Promise<ReadObject | undefined> {
    const { connection } = this;
    for (let attempt = 1; ; attempt++) {
      const found = await getObject(connection, key);
      if (!found) return undefined;
      const { body, length, version, ageMs, crc32 } = found;
      try {
        const bytes = await wholeBody(body, length);
        if (crc32 !== undefined && (await crc32Of(bytes)) !== crc32) throw new Error(`Not the bytes of ${key}: they have another CRC32.`);
        return { bytes, version, ageMs };
      } catch (error) {
        if (errorNameOf(error) === 'TimeoutError') throw connection.silence();
        // Retried here: the SDK retries a request that failed, but not one whose answer breaks off in the middle.
        if (attempt === READ_ATTEMPTS) throw error;
        connection.onRetry();
      }
    }
  }

  override async open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    const { connection } = this;
    try {
      const found = await (range ? getObject(connection, key, range) : getWholeObject(connection, key));
      return found && piecesOf(found.body);
    } catch (error) {
      if (errorNameOf(error) === 'InvalidRange') return Readable.from([]);
      throw error;
    }
  }

  override list(prefix: string): AsyncGenerator<ListedObject> {
    return this.listed(prefix);
  }

  override listAfter(prefix: string, after: string): AsyncGenerator<ListedObject> {
    return this.listed(prefix, { StartAfter: this.connection.prefix + after });
  }

  private async *listed(prefix: string, options?: ListOptions): AsyncGenerator<ListedObject> {
    const { connection } = this;
    const isNew = newKeys();
    for await (const page of this.pages(prefix, options)) {
      for (const { Key = '', Size = 0, LastModified } of page.Contents ?? []) {
        if (isNew(Key)) yield { key: Key.slice(connection.prefix.length), size: Size, ageMs: connection.watch.ageOf(LastModified, page) };
      }
    }
  }

  override async *listDirectories(prefix: string): AsyncGenerator<string> {
    const isNew = newDirectories();
    for await (const page of this.pages(prefix, { Delimiter: '/' })) {
      for (const { Prefix = '' } of page.CommonPrefixes ?? []) if (isNew(Prefix)) yield Prefix.slice(this.connection.prefix.length);
    }
  }

  override async remove(keys: readonly string[]): Promise<void> {
    const { connection } = this;
    for (let first = 0; first < keys.length; first += MAX_REMOVED_AT_ONCE) {
      const Objects = keys.slice(first, first + MAX_REMOVED_AT_ONCE).map((key) => ({ Key: connection.prefix + key }));
      const command = new DeleteObjectsCommand({ Bucket: connection.bucket, Delete: { Objects, Quiet: true } });
      const { Errors = [] } = await connection.within((options) => connection.client.send(command, options));
      const [failed] = Errors;
      if (failed) {
        const message = `${Errors.length} objects were not removed, the first with ${failed.Code}: ${failed.Message}`;
        throw Object.assign(new Error(message), failed.Code === 'AccessDenied' && { name: failed.Code });
      }
    }
  }

  override async removeParts(key: string): Promise<void> {
    await removeParts(this.connection, key);
  }

  override async checkRights(key: string): Promise<void> {
    const { connection } = this;
    const { client } = connection;
    const at = connection.at(key);
    const prefix = { Bucket: at.Bucket, Prefix: at.Key };
    const ask = <T>(right: string, call: (options: { readonly abortSignal: AbortSignal }) => Promise<T>) =>
      connection.within(call).catch(missingRight(right, isForbidden));
    // The right to list comes first: without it, a store answers 403 for a missing object, as without that to read.
    await ask('s3:ListBucket', (options) => client.send(new ListObjectsV2Command({ ...prefix, MaxKeys: 1 }), options));
    await Promise.all([
      ask('s3:GetObject', (options) => orUndefined(client.send(new HeadObjectCommand(at), options))),
      ask('s3:ListBucketMultipartUploads', (options) =>
        client.send(new ListMultipartUploadsCommand({ ...prefix, MaxUploads: 1 }), options),
      ),
      ask('s3:AbortMultipartUpload', async (options) => {
        const aborting = client.send(new AbortMultipartUploadCommand({ ...at, UploadId: NO_UPLOAD_ID }), options);
        await aborting.catch((error: unknown) => {
          // Not a failure: the store permitted the request, and only found no multipart upload with this id.
          if (!(error instanceof S3ServiceException && [400, 404].includes(error.$metadata.httpStatusCode ?? 0))) throw error;
        });
      }),
      this.remove([key]).catch(missingRight('s3:DeleteObject', isForbidden)),
    ]);
  }

  override close(): void {
    this.leftovers.close();
    this.connection.close();
  }

  private async put(
    key: string,
    Body: Uint8Array,
    condition: { readonly IfNoneMatch?: string; readonly IfMatch?: string },
  ): Promise<string | undefined> {
    const { connection } = this;
    const write = new ConditionalWrite(connection, key);
    const input = { ...write.object, ...condition };
    const bytes = Buffer.from(Body.buffer, Body.byteOffset, Body.byteLength);
    const written = await connection.sending(connection.client, bytes, (options) => write.perform(() => putObject(connection, connection.client, input, bytes, options)));
    return written?.ETag;
  }

  private async *pages(prefix: string, options?: ListOptions): AsyncGenerator<ListObjectsV2CommandOutput> {
    const { connection } = this;
    const input = { Bucket: connection.bucket, Prefix: connection.prefix + prefix, MaxKeys: this.pageSize, ...options };
    let ContinuationToken: string | undefined;
    do {
      const command: ListObjectsV2Command = new ListObjectsV2Command({ ...input, ContinuationToken });
      const page = await connection.within((options) => connection.client.send(command, options));
      yield page;
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
  }
}

/** The pieces of a body. Releases the connection even if the iteration is ended before the first piece. */
function piecesOf(body: Readable): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]: () => {
      const pieces = body[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
      return {
        next: () => pieces.next(),
        return: () => {
          body.destroy();
          return Promise.resolve({ done: true, value: undefined });
        },
      };
    },
  };
}
