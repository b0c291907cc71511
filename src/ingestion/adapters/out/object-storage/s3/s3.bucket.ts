import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { env } from 'node:process';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  type CompleteMultipartUploadCommandInput,
  type CompleteMultipartUploadCommandOutput,
  CreateMultipartUploadCommand,
  type CreateMultipartUploadCommandInput,
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
  S3ServiceException,
  UploadPartCommand,
  type UploadPartCommandInput,
} from '@aws-sdk/client-s3';
import { withTimeLimit } from '../../../../../common/time-limit.js';
import { beginCall } from '../begin-call.js';
import { Bucket, type ByteRange, type ListedObject, missingRight, ObjectExistsError, type ReadObject, significantOffset, StoreSilentError } from '../bucket.js';
import { PartMemory } from '../part-memory.js';
import { sendParts } from '../parts.js';
import { Leftovers } from './leftovers.js';
import { errorNameOf, isForbidden, isNotFound, isPassing, isSkewLearnt } from './s3-errors.js';
import { StoreWatch } from './store-watch.js';

export interface S3BucketOptions {
  readonly bucket: string;
  /** Precedes every key, separated by one `/`; empty for none. */
  readonly prefix: string;
  /** The region of the bucket. Default: the SDK's own. */
  readonly region?: string | undefined;
  /** The URL of the store. Default: the SDK's own. */
  readonly endpoint?: string | undefined;
  readonly forcePathStyle: boolean;
  /** How long a call may make no progress, in milliseconds. */
  readonly timeoutMs: number;
  /** Longest file in bytes. The length of parts follows from it, because an upload has at most 10,000 parts. */
  readonly maxUploadBytes: number;
  /** The credentials. Default: those that the SDK finds (its default chain). */
  readonly credentials?: S3ClientConfig['credentials'];
  /** Maximum number of objects in one page of a listing. Default: the store's maximum. */
  readonly pageSize?: number;
}

const MIB = 1024 * 1024;
/** The smallest part that S3 accepts, except for the last one. In bytes. */
const LEAST_PART = 5 * MIB;
const MOST_PARTS = 10_000;
/** Parts of one upload that are sent at once, at most. Longer parts lower the number (MOST_BYTES_AT_ONCE). */
const PARTS_AT_ONCE = 4;
const MOST_BYTES_AT_ONCE = 20 * MIB;
/** How long a failed upload waits for its parts to be removed, in milliseconds. Enough for a healthy store. */
const LONGEST_GIVING_BACK_MS = 2_000;
const MOST_CONNECT_MS = 2000;
const MOST_REMOVED_AT_ONCE = 1000;
/** Pause before a write is repeated that conflicted with another one at the same key, in milliseconds. */
const CONFLICT_PAUSE_MS = 100;
const CONFLICT_ATTEMPTS = 10;
/** Pause before a failed request of `upload` is repeated, in milliseconds. */
const PART_PAUSE_MS = 500;
const READ_ATTEMPTS = 3;
/** Metadata by which a write recognizes its own object, if an answer was lost and the retry is refused. */
const WRITE_ID = 'write-id';

/**
 * A bucket of S3, or of a store that speaks its protocol and supports `If-None-Match` and `If-Match`.
 *
 * A version is an ETag, which is the same for the same bytes. Rejects with errors of the SDK, with `StoreSilentError`
 * if the store made no progress for the time-out, and with the errors of `Bucket`. A reader of `open` that pauses for
 * longer than the time-out loses its connection.
 */
export class S3Bucket extends Bucket {
  private readonly client: S3Client;
  /** Sends each request once, because `persist` decides what is retried, and for how long. */
  private readonly uploading: S3Client;
  private readonly watch: StoreWatch;
  private readonly leftovers = new Leftovers();
  private readonly memory: PartMemory;
  private readonly bucket: string;
  private readonly prefix: string;
  private readonly timeoutMs: number;
  private readonly pageSize: number | undefined;
  private readonly silence = () => new StoreSilentError(this.timeoutMs);

  constructor(options: S3BucketOptions) {
    super();
    const { bucket, prefix, region, endpoint, forcePathStyle, timeoutMs, maxUploadBytes, credentials, pageSize } = options;
    const trimmed = prefix.replace(/^\/+|\/+$/g, '');
    this.bucket = bucket;
    this.prefix = trimmed && `${trimmed}/`;
    this.timeoutMs = timeoutMs;
    this.memory = new PartMemory(Math.max(LEAST_PART, Math.ceil(maxUploadBytes / MOST_PARTS)));
    this.pageSize = pageSize;
    // The SDK warns about Node 20 on standard error, although this release of the SDK still supports it.
    env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
    const config: S3ClientConfig = {
      ...(region && { region }),
      ...(endpoint && { endpoint }),
      ...(credentials && { credentials }),
      forcePathStyle,
      expectContinueHeader: false,
      requestHandler: {
        connectionTimeout: Math.min(MOST_CONNECT_MS, timeoutMs),
        socketTimeout: timeoutMs,
        // The number of sockets isn't limited, because the SDK treats a request that waits for a free socket as one
        // that can't connect.
        httpAgent: { maxSockets: Infinity },
        httpsAgent: { maxSockets: Infinity },
      },
    };
    this.client = new S3Client(config);
    this.uploading = new S3Client({ ...config, maxAttempts: 1 });
    this.watch = new StoreWatch([this.client, this.uploading], timeoutMs);
  }

  /** The offset that the SDK has determined. The SDK needs it, because it signs requests by the store's clock. */
  override get clockOffsetMs(): number {
    return significantOffset(this.uploading.config.systemClockOffset || this.client.config.systemClockOffset);
  }

  override get storeTime(): number {
    return this.watch.storeTime;
  }

  override async create(key: string, bytes: Uint8Array): Promise<string | undefined> {
    return this.put(key, bytes, { IfNoneMatch: '*' });
  }

  override async replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined> {
    return this.put(key, bytes, version === undefined ? {} : { IfMatch: version });
  }

  override async upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const source = new Source(bytes);
    const unfinished: UnfinishedUpload = { key, uploadId: undefined, isUnsure: false };
    const object = { ...this.at(key), Metadata: { [WRITE_ID]: randomUUID() } };
    const parts: CompletedPart[] = [];
    let beginning: Promise<string | undefined> | undefined;
    const make = async (send: () => Promise<{ readonly ETag?: string | undefined }>) => {
      const made = await this.persist(() => this.unlessRefused(key, object.Metadata[WRITE_ID], send));
      if (!made) throw new ObjectExistsError(key);
    };
    const atOnce = Math.max(1, Math.min(PARTS_AT_ONCE, Math.floor(MOST_BYTES_AT_ONCE / this.memory.partBytes)));
    try {
      const count = await sendParts(source, { memory: this.memory, atOnce }, {
        sendPart: async (Body, index) => {
          const UploadId = await (beginning ??= this.persist(() => this.begin(object, unfinished)));
          parts[index] = await this.persist(() => this.sendPart({ ...this.at(key), UploadId, PartNumber: index + 1, Body }));
        },
        sendWhole: (Body) =>
          make(() => this.within((ending) => this.uploading.send(new PutObjectCommand({ ...object, IfNoneMatch: '*', Body }), ending))),
      });
      if (count > 0) {
        await make(() => this.complete({ ...this.at(key), UploadId: unfinished.uploadId, IfNoneMatch: '*', MultipartUpload: { Parts: parts } }));
      }
      if (unfinished.isUnsure) this.leftovers.add(() => this.removeParts(key));
    } catch (error) {
      await this.giveBack(unfinished, source.hasFailed || error instanceof ObjectExistsError);
      throw error;
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
          // The SDK retries a request, but not one whose answer breaks off in the middle.
          if (attempt === READ_ATTEMPTS || options.abortSignal.aborted) throw error;
        }
      }
    });
  }

  override async open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    const command = new GetObjectCommand({ ...this.at(key), ...(range && { Range: `bytes=${range.first}-${range.last}` }) });
    try {
      const output = await orUndefined(this.within((options) => this.client.send(command, options)));
      return output?.Body && piecesOf(output.Body as Readable);
    } catch (error) {
      if (errorNameOf(error) === 'InvalidRange') return Readable.from([]);
      throw error;
    }
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
        const message = `${Errors.length} objects were not removed, the first with ${failed.Code}: ${failed.Message}`;
        throw Object.assign(new Error(message), failed.Code === 'AccessDenied' && { name: failed.Code });
      }
    }
  }

  override async removeParts(key: string): Promise<void> {
    const Prefix = this.prefix + key;
    let marker: Pick<ListMultipartUploadsCommandInput, 'KeyMarker' | 'UploadIdMarker'> | undefined = {};
    while (marker) {
      const command: ListMultipartUploadsCommand = new ListMultipartUploadsCommand({
        Bucket: this.bucket,
        // MinIO lists unfinished uploads only if the prefix is a whole key.
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

  override async checkRights(key: string): Promise<void> {
    const at = this.at(key);
    const prefix = { Bucket: this.bucket, Prefix: at.Key };
    const ask = <T>(right: string, call: (options: { readonly abortSignal: AbortSignal }) => Promise<T>) =>
      this.within(call).catch(missingRight(right, isForbidden));
    // Without the right to list, a store answers 403 for a missing object, as for an object that may not be read.
    await ask('s3:ListBucket', (options) => this.client.send(new ListObjectsV2Command({ ...prefix, MaxKeys: 1 }), options));
    await Promise.all([
      ask('s3:GetObject', (options) => orUndefined(this.client.send(new HeadObjectCommand(at), options))),
      ask('s3:ListBucketMultipartUploads', (options) =>
        this.client.send(new ListMultipartUploadsCommand({ ...prefix, MaxUploads: 1 }), options),
      ),
      ask('s3:AbortMultipartUpload', async (options) => {
        const aborting = this.client.send(new AbortMultipartUploadCommand({ ...at, UploadId: NO_UPLOAD_ID }), options);
        await aborting.catch((error: unknown) => {
          // Not a failure: the store permitted the request, and only found no such upload.
          if (!(error instanceof S3ServiceException && [400, 404].includes(error.$metadata.httpStatusCode ?? 0))) throw error;
        });
      }),
      this.remove([key]).catch(missingRight('s3:DeleteObject', isForbidden)),
    ]);
  }

  override close(): void {
    this.leftovers.close();
    this.client.destroy();
    this.uploading.destroy();
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
   * Performs a conditional write. Resolves to undefined if the store refused it. If the answer to the first attempt was
   * lost, a repeated write is refused because of the object that the first one wrote. Recognizes this object by
   * `writeId`, and returns it like an answer.
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
        if (!CONFLICTS.has(name)) return undefined;
        if (attempt === CONFLICT_ATTEMPTS) throw error;
        await sleep(CONFLICT_PAUSE_MS);
      }
    }
  }

  private async begin(input: CreateMultipartUploadCommandInput, unfinished: UnfinishedUpload): Promise<string | undefined> {
    const command = new CreateMultipartUploadCommand({ ...input, ...PART_CHECKSUM });
    try {
      ({ UploadId: unfinished.uploadId } = await this.within((options) => this.uploading.send(command, options)));
      return unfinished.uploadId;
    } catch (error) {
      unfinished.isUnsure ||= isPassing(error) || error instanceof StoreSilentError;
      throw error;
    }
  }

  /** Sends a part. This may take longer than the time-out as long as there is progress. */
  private async sendPart(input: UploadPartCommandInput): Promise<CompletedPart> {
    await this.within(() => this.uploading.config.credentials());
    const { ETag, ChecksumCRC32 } = await this.uploading.send(new UploadPartCommand({ ...input, ...PART_CHECKSUM }));
    return { PartNumber: input.PartNumber, ETag, ChecksumCRC32 };
  }

  /**
   * Completes an upload in parts. Like `sendPart`, this may take longer than the time-out. A store may need long to
   * join many parts, and keeps sending bytes meanwhile.
   */
  private async complete(input: CompleteMultipartUploadCommandInput): Promise<CompleteMultipartUploadCommandOutput> {
    await this.within(() => this.uploading.config.credentials());
    return this.uploading.send(new CompleteMultipartUploadCommand(input));
  }

  /**
   * Retries a request after failures that may pass, until the time-out has passed since the first failure. So a shorter
   * outage doesn't end a long upload.
   */
  private async persist<T>(send: () => Promise<T>): Promise<T> {
    let lastMs = Infinity;
    let hasLearntSkew = false;
    for (;;) {
      try {
        return await (lastMs === Infinity ? send() : withTimeLimit(lastMs - performance.now(), send(), this.silence));
      } catch (error) {
        if (isSkewLearnt(error) && !hasLearntSkew) {
          hasLearntSkew = true;
          continue;
        }
        const nowMs = performance.now();
        lastMs = Math.min(lastMs, nowMs + this.timeoutMs);
        if (!isPassing(error) || nowMs + PART_PAUSE_MS >= lastMs) throw error;
        await sleep(PART_PAUSE_MS);
      }
    }
  }

  /** Removes the parts of a failed upload: at once if the store is healthy, and otherwise later. */
  private async giveBack({ key, uploadId, isUnsure }: UnfinishedUpload, isStoreWell: boolean): Promise<void> {
    if (uploadId === undefined && !isUnsure) return;
    const action = async () => {
      if (uploadId === undefined || isUnsure) await this.removeParts(key);
      else await this.abort(key, uploadId);
    };
    if (!isStoreWell) {
      // Twice, because the store may still carry out the request of a part after the first removal, although its answer
      // is no longer awaited.
      this.leftovers.add(action, 2);
      return;
    }
    try {
      await withTimeLimit(LONGEST_GIVING_BACK_MS, action(), this.silence);
    } catch {
      // The removal is tried again later, and this error isn't reported: the caller gets the error that the upload
      // failed with.
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

  /** Limits a small call, with its retries, to the time-out, from when it may begin. */
  private async within<T>(call: (options: { readonly abortSignal: AbortSignal }) => Promise<T>): Promise<T> {
    await beginCall();
    const ending = new AbortController();
    // Some operations ignore the signal, for example fetching credentials.
    return withTimeLimit(this.timeoutMs, call({ abortSignal: ending.signal }), () => {
      ending.abort();
      return this.silence();
    });
  }
}

interface UnfinishedUpload {
  readonly key: string;
  /** Undefined until the multipart upload has begun. */
  uploadId: string | undefined;
  /** Whether there may be another multipart upload of this key, whose id was lost with the store's answer. */
  isUnsure: boolean;
}

/** An id that no upload has. */
const NO_UPLOAD_ID = 'bm9uZQ';

/** The checksum by which the store verifies each part. */
const PART_CHECKSUM = { ChecksumAlgorithm: 'CRC32' } as const;

/**
 * Error codes that mean that another write of the object was in progress. versitygw also answers with
 * `ExistingObjectIsDirectory` while the last other object of the same directory is being removed. A retry may succeed.
 */
const CONFLICTS: ReadonlySet<string> = new Set(['ConditionalRequestConflict', 'ExistingObjectIsDirectory']);

/**
 * Errors by which a write is refused. `NoSuchKey`: the version to replace is gone. `NoSuchUpload`: the upload is
 * complete.
 */
const REFUSALS: ReadonlySet<string> = new Set([
  'PreconditionFailed',
  ...CONFLICTS,
  'NoSuchKey',
  'NoSuchUpload',
]);

/**
 * The bytes of an upload, and whether reading them failed. If it did, the store didn't cause the failure of the upload.
 */
class Source implements AsyncIterable<Uint8Array> {
  hasFailed = false;

  constructor(private readonly bytes: AsyncIterable<Uint8Array>) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    try {
      yield* this.bytes;
    } catch (error) {
      this.hasFailed = true;
      throw error;
    }
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

async function orUndefined<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
