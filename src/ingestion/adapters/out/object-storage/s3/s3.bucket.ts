import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { env } from 'node:process';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandInput,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  type UploadPartCommand,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { Bucket, type ListedObject, ObjectExistsError, type ReadObject, StoreSilentError } from '../bucket.js';
import { Leftovers } from './leftovers.js';
import { errorNameOf, isNotFound, isPassing } from './s3-errors.js';
import { StoreWatch } from './store-watch.js';

export interface S3BucketOptions {
  readonly bucket: string;
  /** Stands before every key, with one `/` between; empty for none. */
  readonly prefix: string;
  /** The SDK's own without it. */
  readonly region?: string | undefined;
  /** The SDK's own without it. */
  readonly endpoint?: string | undefined;
  readonly forcePathStyle: boolean;
  /** The longest that a call may stay without progress, in milliseconds. */
  readonly timeoutMs: number;
  /** The longest file, in bytes: parts are as long as 10,000 of them must be. */
  readonly maxUploadBytes: number;
  /** The SDK's own chain without it. */
  readonly credentials?: S3ClientConfig['credentials'];
  /** Objects in a page of a listing; the store's own number without it. */
  readonly pageSize?: number;
}

const MIB = 1024 * 1024;
/** The least that S3 takes, but for the last part. */
const LEAST_PART = 5 * MIB;
const MOST_PARTS = 10_000;
/** Of one upload, in flight. */
const MOST_PART_MEMORY = 20 * MIB;
const MOST_CONNECT_MS = 2000;
const MOST_REMOVED_AT_ONCE = 1000;
/** Between a write that met another one at the same key, and its repeat. */
const CONFLICT_PAUSE_MS = 100;
const CONFLICT_ATTEMPTS = 10;
/** Between attempts at a part that the SDK gave up. */
const PART_PAUSE_MS = 500;
const READ_ATTEMPTS = 3;
/** The metadata by which a write knows its own object, when an answer was lost and the repeat is refused. */
const WRITE_ID = 'write-id';

/**
 * A bucket of S3, or of a store that speaks its protocol and refuses by `If-None-Match` and `If-Match`.
 *
 * A version is an ETag, which the same bytes have again. Rejects with what the SDK throws, with `StoreSilentError` when
 * the store made no progress for the time-out, and with the errors of `Bucket`. A reader of `open` that pauses for longer
 * than the time-out loses its connection.
 */
export class S3Bucket extends Bucket {
  private readonly client: S3Client;
  private readonly watch: StoreWatch;
  private readonly leftovers = new Leftovers();
  private readonly bucket: string;
  private readonly prefix: string;
  private readonly timeoutMs: number;
  private readonly partSize: number;
  private readonly pageSize: number | undefined;

  constructor(options: S3BucketOptions) {
    super();
    const { bucket, prefix, region, endpoint, forcePathStyle, timeoutMs, maxUploadBytes, credentials, pageSize } = options;
    const trimmed = prefix.replace(/^\/+|\/+$/g, '');
    this.bucket = bucket;
    this.prefix = trimmed && `${trimmed}/`;
    this.timeoutMs = timeoutMs;
    this.partSize = Math.max(LEAST_PART, Math.ceil(maxUploadBytes / MOST_PARTS));
    this.pageSize = pageSize;
    // The SDK warns of Node 20 on standard error, which this release of it still supports.
    env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
    this.client = new S3Client({
      ...(region && { region }),
      ...(endpoint && { endpoint }),
      ...(credentials && { credentials }),
      forcePathStyle,
      expectContinueHeader: false,
      requestHandler: {
        connectionTimeout: Math.min(MOST_CONNECT_MS, timeoutMs),
        socketTimeout: timeoutMs,
        // A request that waits for a socket is taken for one that doesn't connect.
        httpAgent: { maxSockets: Infinity },
        httpsAgent: { maxSockets: Infinity },
      },
    });
    this.watch = new StoreWatch(this.client, timeoutMs);
  }

  override async create(key: string, bytes: Uint8Array): Promise<string | undefined> {
    return this.put(key, bytes, { IfNoneMatch: '*' });
  }

  override async replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined> {
    return this.put(key, bytes, version === undefined ? {} : { IfMatch: version });
  }

  override async upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const body = new PassThrough();
    const transfer = new Transfer(bytes, body);
    const unfinished: UnfinishedUpload = { key, uploadId: undefined, isUnsure: false };
    const writeId = randomUUID();
    const upload = new Upload({
      client: this.clientOfUpload(unfinished, writeId, (error) => body.destroy(error)),
      params: { ...this.at(key), Body: body, IfNoneMatch: '*', Metadata: { [WRITE_ID]: writeId } },
      partSize: this.partSize,
      queueSize: Math.max(1, Math.floor(MOST_PART_MEMORY / this.partSize)),
      leavePartsOnError: true,
    });
    try {
      // It waits for each part that is under way, so that none comes behind the end of the upload.
      await upload.done();
      if (unfinished.isUnsure) this.leftovers.add(() => this.removeParts(key));
    } catch (error) {
      const isStoreWell = transfer.failure !== undefined || error instanceof ObjectExistsError;
      await this.giveBack(unfinished, isStoreWell);
      throw transfer.failure ? transfer.failure.error : error;
    } finally {
      body.destroy();
    }
  }

  override async read(key: string): Promise<ReadObject | undefined> {
    return this.within(async (options) => {
      for (let attempt = 1; ; attempt++) {
        const output = await orUndefined(this.client.send(new GetObjectCommand(this.at(key)), options));
        if (!output?.Body) return undefined;
        try {
          const bytes = Buffer.from(await output.Body.transformToByteArray());
          return { bytes, version: output.ETag ?? '', ageMs: this.watch.ageOf(output.LastModified, output) };
        } catch (error) {
          // The SDK repeats a request, but not one whose answer breaks off in the middle.
          if (attempt === READ_ATTEMPTS || options.abortSignal.aborted) throw error;
        }
      }
    });
  }

  override async open(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const command = new GetObjectCommand(this.at(key));
    const output = await orUndefined(this.within((options) => this.client.send(command, options)));
    return output?.Body && piecesOf(output.Body as Readable);
  }

  override async *list(prefix: string): AsyncGenerator<ListedObject> {
    for await (const page of this.pages(prefix)) {
      for (const { Key = '', Size = 0, LastModified } of page.Contents ?? []) {
        yield { key: Key.slice(this.prefix.length), size: Size, ageMs: this.watch.ageOf(LastModified, page) };
      }
    }
  }

  override async *listDirectories(prefix: string): AsyncGenerator<string> {
    for await (const page of this.pages(prefix, '/')) {
      for (const { Prefix = '' } of page.CommonPrefixes ?? []) yield Prefix.slice(this.prefix.length);
    }
  }

  override async remove(keys: readonly string[]): Promise<void> {
    for (let first = 0; first < keys.length; first += MOST_REMOVED_AT_ONCE) {
      const Objects = keys.slice(first, first + MOST_REMOVED_AT_ONCE).map((key) => ({ Key: this.prefix + key }));
      const command = new DeleteObjectsCommand({ Bucket: this.bucket, Delete: { Objects, Quiet: true } });
      const { Errors = [] } = await this.within((options) => this.client.send(command, options));
      const [failed] = Errors;
      if (failed) {
        throw new Error(`${Errors.length} objects were not removed, the first with ${failed.Code}: ${failed.Message}`);
      }
    }
  }

  override async removeParts(key: string): Promise<void> {
    const Prefix = this.prefix + key;
    let marker: Pick<ListMultipartUploadsCommandInput, 'KeyMarker' | 'UploadIdMarker'> | undefined = {};
    while (marker) {
      const command: ListMultipartUploadsCommand = new ListMultipartUploadsCommand({
        Bucket: this.bucket,
        // MinIO lists uploads by a whole key only.
        Prefix,
        ...marker,
      });
      const page = await this.within((options) => this.client.send(command, options));
      for (const { Key, UploadId } of page.Uploads ?? []) {
        if (Key === Prefix && UploadId) await this.abort(key, UploadId);
      }
      marker = page.IsTruncated ? { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker } : undefined;
    }
  }

  override close(): void {
    this.leftovers.close();
    this.client.destroy();
  }

  private at(key: string) {
    return { Bucket: this.bucket, Key: this.prefix + key };
  }

  private async put(
    key: string,
    Body: Uint8Array,
    condition: { readonly IfNoneMatch?: string; readonly IfMatch?: string },
  ): Promise<string | undefined> {
    const writeId = randomUUID();
    const input = { ...this.at(key), Body, Metadata: { [WRITE_ID]: writeId }, ...condition };
    return this.within(async (options) => {
      const written = await this.unlessRefused(key, writeId, () => this.client.send(new PutObjectCommand(input), options));
      return written?.ETag;
    });
  }

  /**
   * Does a write that the store may refuse; undefined when it did. The first answer of a repeated write may have been
   * lost: the object that it is refused for is its own then.
   */
  private async unlessRefused<Output extends { readonly ETag?: string | undefined }>(
    key: string,
    writeId: string,
    write: () => Promise<Output>,
  ): Promise<Output | HeadObjectCommandOutput | undefined> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await write();
      } catch (error) {
        const name = errorNameOf(error);
        if (!REFUSALS.has(name)) throw error;
        const found = await this.within((options) =>
          orUndefined(this.client.send(new HeadObjectCommand(this.at(key)), options)),
        );
        if (found?.Metadata?.[WRITE_ID] === writeId) return found;
        if (name === 'NoSuchUpload' && !found) throw error;
        if (name !== 'ConditionalRequestConflict') return undefined;
        if (attempt === CONFLICT_ATTEMPTS) throw error;
        await sleep(CONFLICT_PAUSE_MS);
      }
    }
  }

  /** A client for an `Upload`, which keeps from it what becomes of single requests. */
  private clientOfUpload(unfinished: UnfinishedUpload, writeId: string, fail: (error: Error) => void): S3Client {
    const send = async (command: UploadCommand): Promise<unknown> => {
      if (command instanceof CreateMultipartUploadCommand) {
        try {
          const output = await this.client.send(command);
          unfinished.uploadId = output.UploadId;
          unfinished.isUnsure ||= output.$metadata.attempts !== 1;
          return output;
        } catch (error) {
          unfinished.isUnsure ||= isPassing(error) || error instanceof StoreSilentError;
          throw error;
        }
      }
      if (command instanceof PutObjectCommand || command instanceof CompleteMultipartUploadCommand) {
        const write = async () =>
          command instanceof PutObjectCommand ? this.client.send(command) : this.client.send(command);
        const written = await this.unlessRefused(unfinished.key, writeId, write);
        if (!written) throw new ObjectExistsError(unfinished.key);
        return written;
      }
      return this.client.send(command);
    };
    const persisting = async (command: UploadCommand): Promise<unknown> => {
      try {
        return await this.persist(() => send(command));
      } catch (error) {
        // Otherwise other parts, which wait for bytes, would wait for a client that sends none.
        fail(error instanceof Error ? error : new Error(String(error)));
        throw error;
      }
    };
    return Object.create(this.client, { send: { value: persisting } }) as S3Client;
  }

  /** Repeats until the time-out what the SDK gave up, so that a store that is away for less costs nobody a long upload. */
  private async persist<T>(send: () => Promise<T>): Promise<T> {
    let lastMs = Infinity;
    for (;;) {
      try {
        return await send();
      } catch (error) {
        const nowMs = performance.now();
        lastMs = Math.min(lastMs, nowMs + this.timeoutMs);
        if (!isPassing(error) || nowMs + PART_PAUSE_MS >= lastMs) throw error;
        await sleep(PART_PAUSE_MS);
      }
    }
  }

  /** Gives back the parts of an upload that failed: now where the store is well, and otherwise later. */
  private async giveBack({ key, uploadId, isUnsure }: UnfinishedUpload, isStoreWell: boolean): Promise<void> {
    if (uploadId === undefined && !isUnsure) return;
    const action = async () => {
      if (uploadId === undefined || isUnsure) await this.removeParts(key);
      else await this.abort(key, uploadId);
    };
    if (!isStoreWell) {
      // Twice, as a part that was given up may come in behind the first.
      this.leftovers.add(action, 2);
      return;
    }
    try {
      await action();
    } catch {
      // The upload failed for another reason, which is what its caller gets to know.
      this.leftovers.add(action);
    }
  }

  private async abort(key: string, UploadId: string): Promise<void> {
    const command = new AbortMultipartUploadCommand({ ...this.at(key), UploadId });
    try {
      await this.within((options) => this.client.send(command, options));
    } catch (error) {
      if (errorNameOf(error) !== 'NoSuchUpload') throw error;
    }
  }

  private async *pages(prefix: string, Delimiter?: string): AsyncGenerator<ListObjectsV2CommandOutput> {
    const input = { Bucket: this.bucket, Prefix: this.prefix + prefix, Delimiter, MaxKeys: this.pageSize };
    let ContinuationToken: string | undefined;
    do {
      const command: ListObjectsV2Command = new ListObjectsV2Command({ ...input, ContinuationToken });
      const page = await this.within((options) => this.client.send(command, options));
      yield page;
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
  }

  /** Gives a small call the time-out as a whole, with what it repeats. */
  private async within<T>(call: (options: { readonly abortSignal: AbortSignal }) => Promise<T>): Promise<T> {
    const ending = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new StoreSilentError(this.timeoutMs));
        ending.abort();
      }, this.timeoutMs);
    });
    try {
      // Not everything heeds the signal: fetching credentials, for one.
      return await Promise.race([call({ abortSignal: ending.signal }), silence]);
    } finally {
      clearTimeout(timer);
    }
  }
}

type UploadCommand =
  | PutObjectCommand
  | CreateMultipartUploadCommand
  | UploadPartCommand
  | CompleteMultipartUploadCommand;

interface UnfinishedUpload {
  readonly key: string;
  /** Undefined as long as it has no parts. */
  uploadId: string | undefined;
  /** Whether there may be another one, whose id was lost with an answer. */
  isUnsure: boolean;
}

/** What a write is refused with; `NoSuchKey` where the version is gone that it was to replace, `NoSuchUpload` where it's complete. */
const REFUSALS: ReadonlySet<string> = new Set([
  'PreconditionFailed',
  'ConditionalRequestConflict',
  'NoSuchKey',
  'NoSuchUpload',
]);

/** Bytes on their way into a stream, which fails when they do; ends them when the stream is destroyed. */
class Transfer {
  /** What the bytes threw. */
  failure: { readonly error: unknown } | undefined;

  constructor(bytes: AsyncIterable<Uint8Array>, body: PassThrough) {
    // Whoever reads the stream gets to know of its failure.
    pipeline(this.watch(bytes), body).catch(() => undefined);
  }

  private async *watch(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      yield* bytes;
    } catch (error) {
      this.failure = { error };
      throw new Error('The bytes broke off.', { cause: error });
    }
  }
}

/** A body piece by piece, which also gives its connection back when it's ended before the first. */
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

async function orUndefined<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
