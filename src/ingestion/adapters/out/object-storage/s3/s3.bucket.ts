import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { env } from 'node:process';
import type { Readable } from 'node:stream';
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
import { Bucket, type ListedObject, missingRight, ObjectExistsError, type ReadObject, significantOffset, StoreSilentError } from '../bucket.js';
import { PartMemory } from '../part-memory.js';
import { sendParts } from '../parts.js';
import { Leftovers } from './leftovers.js';
import { errorNameOf, isForbidden, isNotFound, isPassing, isSkewLearnt } from './s3-errors.js';
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
/** Parts of one upload that are sent at once; fewer of longer parts. */
const PARTS_AT_ONCE = 4;
const MOST_BYTES_AT_ONCE = 20 * MIB;
/** An upload that failed waits for a store that is well to take its parts back, and not for another. */
const LONGEST_GIVING_BACK_MS = 2_000;
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
  /** Asks once: what is repeated, and for how long, is decided by `persist`. */
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
    // The SDK warns of Node 20 on standard error, which this release of it still supports.
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
        // A request that waits for a socket is taken for one that doesn't connect.
        httpAgent: { maxSockets: Infinity },
        httpsAgent: { maxSockets: Infinity },
      },
    };
    this.client = new S3Client(config);
    this.uploading = new S3Client({ ...config, maxAttempts: 1 });
    this.watch = new StoreWatch([this.client, this.uploading], timeoutMs);
  }

  /** As the SDK found it out: it signs by the store's clock. */
  override get clockOffsetMs(): number {
    return significantOffset(this.uploading.config.systemClockOffset || this.client.config.systemClockOffset);
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

  override async checkRights(key: string): Promise<void> {
    const at = this.at(key);
    const prefix = { Bucket: this.bucket, Prefix: at.Key };
    const ask = <T>(right: string, call: (options: { readonly abortSignal: AbortSignal }) => Promise<T>) =>
      this.within(call).catch(missingRight(right, isForbidden));
    // Without it an object that is absent can't be told from one that may not be read.
    await ask('s3:ListBucket', (options) => this.client.send(new ListObjectsV2Command({ ...prefix, MaxKeys: 1 }), options));
    await Promise.all([
      ask('s3:GetObject', (options) => orUndefined(this.client.send(new HeadObjectCommand(at), options))),
      ask('s3:ListBucketMultipartUploads', (options) =>
        this.client.send(new ListMultipartUploadsCommand({ ...prefix, MaxUploads: 1 }), options),
      ),
      ask('s3:AbortMultipartUpload', async (options) => {
        const aborting = this.client.send(new AbortMultipartUploadCommand({ ...at, UploadId: NO_UPLOAD_ID }), options);
        await aborting.catch((error: unknown) => {
          // It would have been allowed: there is no such upload.
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

  /** May take longer than the time-out, as long as there is progress. */
  private async sendPart(input: UploadPartCommandInput): Promise<CompletedPart> {
    await this.within(() => this.uploading.config.credentials());
    const { ETag, ChecksumCRC32 } = await this.uploading.send(new UploadPartCommand({ ...input, ...PART_CHECKSUM }));
    return { PartNumber: input.PartNumber, ETag, ChecksumCRC32 };
  }

  /** As `sendPart`: a store may need long to put many parts together, and shows that it is at it. */
  private async complete(input: CompleteMultipartUploadCommandInput): Promise<CompleteMultipartUploadCommandOutput> {
    await this.within(() => this.uploading.config.credentials());
    return this.uploading.send(new CompleteMultipartUploadCommand(input));
  }

  /** Repeats what failed, until the time-out after the first failure, so that a store that is away for less costs nobody a long upload. */
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
      await withTimeLimit(LONGEST_GIVING_BACK_MS, action(), this.silence);
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
    // Not everything heeds the signal: fetching credentials, for one.
    return withTimeLimit(this.timeoutMs, call({ abortSignal: ending.signal }), () => {
      ending.abort();
      return this.silence();
    });
  }
}

interface UnfinishedUpload {
  readonly key: string;
  /** Undefined as long as it has no parts. */
  uploadId: string | undefined;
  /** Whether there may be another one, whose id was lost with an answer. */
  isUnsure: boolean;
}

/** Of no upload. */
const NO_UPLOAD_ID = 'bm9uZQ';

/** What the store is to check of each part. */
const PART_CHECKSUM = { ChecksumAlgorithm: 'CRC32' } as const;

/** Another write, or in versitygw the removal of the last object beside it, was under way: a repeat fares better. */
const CONFLICTS: ReadonlySet<string> = new Set(['ConditionalRequestConflict', 'ExistingObjectIsDirectory']);

/** What a write is refused with; `NoSuchKey` where the version is gone that it was to replace, `NoSuchUpload` where it's complete. */
const REFUSALS: ReadonlySet<string> = new Set([
  'PreconditionFailed',
  ...CONFLICTS,
  'NoSuchKey',
  'NoSuchUpload',
]);

/** Bytes, and whether they threw. */
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
