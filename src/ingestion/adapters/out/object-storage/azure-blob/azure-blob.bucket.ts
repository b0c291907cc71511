import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { type BlobRequestConditions, type BlockBlobClient, RestError } from '@azure/storage-blob';
import { eachOf } from '../../../../../common/each-of.js';
import { MIB } from '../../../../../common/sizes.js';
import { withTimeLimit } from '../../../../../common/time-limit.js';
import { beginCall } from '../begin-call.js';
import { Bucket, type ByteRange, type ListedObject, missingRight, newDirectories, newKeys, ObjectExistsError, type ReadObject, SHORT_BODY_BYTES, significantOffset, StoreSilentError } from '../bucket.js';
import { PartMemory } from '../part-memory.js';
import { sendParts } from '../parts.js';
import { wholeBody } from '../whole-body.js';
import { Container, DefaultCredential } from './container.js';

export interface AzureBlobBucketOptions {
  readonly container: string;
  readonly prefix?: string;
  /** How to reach the storage account. With `url`, the default credential of `@azure/identity` is used. */
  readonly account: { readonly connectionString: string } | { readonly url: string };
  readonly timeoutMs: number;
  /**
   * The length of the longest object that `upload` must be able to create, in bytes. Up to 195 GiB is always possible;
   * longer objects need blocks of more than 4 MiB, some of which are held in memory.
   */
  readonly maxUploadBytes?: number;
  readonly pageSize?: number;
  readonly onRetry?: () => void;
}

/** The body of a download. The SDK's types declare a body without `destroy`. */
type Body = AsyncIterable<Uint8Array> & { destroy(): void };

const RETRIES = { maxTries: 5, retryDelayInMs: 100, maxRetryDelayInMs: 2_000 };
const MIN_BLOCK_BYTES = 4 * MIB;
const MAX_BLOCKS = 50_000;
const BLOCKS_AT_ONCE = 4;
const PIECE_BYTES = 64 * 1024;
const MAX_CLEARING_MS = 2_000;

/**
 * A container of Azure Blob Storage. A hierarchical namespace isn't supported, because it lists directories as objects.
 */
export class AzureBlobBucket extends Bucket {
  private readonly container: Container;
  private readonly prefix: string;
  private readonly timeoutMs: number;
  private readonly memory: PartMemory;
  private readonly pageSize: number | undefined;
  private offsetMs = 0;

  constructor({ container, prefix = '', account, timeoutMs, maxUploadBytes = 0, pageSize, onRetry = () => undefined }: AzureBlobBucketOptions) {
    super();
    this.container =
      'url' in account
        ? new Container(`${account.url.replace(/\/+$/, '')}/${container}`, new DefaultCredential(), { retryOptions: RETRIES })
        : new Container(account.connectionString, container, { retryOptions: RETRIES });
    this.container.observe(onRetry, (answeredAt) => {
      this.offsetMs = answeredAt - Date.now();
    });
    this.prefix = prefix;
    this.timeoutMs = timeoutMs;
    this.memory = new PartMemory(Math.max(MIN_BLOCK_BYTES, Math.ceil(maxUploadBytes / MAX_BLOCKS)));
    this.pageSize = pageSize;
  }

  override get clockOffsetMs(): number {
    return significantOffset(this.offsetMs);
  }

  override get storeTime(): number {
    return Date.now() + this.offsetMs;
  }

  override create(key: string, bytes: Uint8Array): Promise<string | undefined> {
    return this.put(key, bytes, { ifNoneMatch: '*' });
  }

  override replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined> {
    return this.put(key, bytes, { ifMatch: version });
  }

  override async upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const blob = this.blob(key);
    const nonce = randomUUID();
    const idOf = (index: number) => Buffer.from(`${nonce}-${String(index).padStart(5, '0')}`).toString('base64');
    const made = (version: string | undefined) => {
      if (version === undefined) throw new ObjectExistsError(key);
    };
    try {
      // Not by the SDK's `uploadStream`, which can't abort the staging of a block, and ignores the memory budget.
      const count = await sendParts(bytes, { memory: this.memory, atOnce: BLOCKS_AT_ONCE }, {
        sendPart: async (block, index) => {
          await this.ask((abortSignal, onProgress) => blob.stageBlock(idOf(index), bodyOf(block, onProgress), block.length, { abortSignal }));
        },
        sendWhole: async (whole) => { made(await this.create(key, whole)); },
      });
      if (count > 0) made(await this.commit(blob, Array.from({ length: count }, (_, index) => idOf(index))));
    } catch (error) {
      // Waits for the removal of the blocks for at most two seconds. Azure drops any that are left after a week.
      await Promise.race([Promise.allSettled([this.removeParts(key)]), delay(MAX_CLEARING_MS, undefined, { ref: false })]);
      throw error;
    }
  }

  override read(key: string): Promise<ReadObject | undefined> {
    return this.ask(async (abortSignal, onProgress) => {
      const found = await unlessAbsent(this.blob(key).download(0, undefined, { abortSignal, onProgress }));
      if (!found) return undefined;
      return {
        bytes: await wholeBody(given(found.readableStreamBody) as Body, found.contentLength),
        version: given(found.etag),
        ageMs: ageMs(found.date, found.lastModified),
      };
    });
  }

  override async open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    const { first, last } = range ?? { first: 0, last: undefined };
    const count = last === undefined ? undefined : last - first + 1;
    try {
      const found = await this.ask((abortSignal) => unlessAbsent(this.blob(key).download(first, count, { abortSignal })));
      return found && this.piecesOf(given(found.readableStreamBody) as Body);
    } catch (error) {
      if (hasCode(error, 'InvalidRange')) return Readable.from([]);
      throw error;
    }
  }

  override async *list(prefix: string): AsyncGenerator<ListedObject> {
    const pages = this.pages((abortSignal) => this.container.listBlobsFlat({ prefix: this.prefix + prefix, abortSignal }));
    const isNew = newKeys();
    for await (const { segment, date } of pages) {
      for (const { name, properties } of segment.blobItems) {
        if (!isNew(name)) continue;
        const key = name.slice(this.prefix.length);
        yield { key, size: given(properties.contentLength), ageMs: ageMs(date, properties.lastModified) };
      }
    }
  }

  override async *listDirectories(prefix: string): AsyncGenerator<string> {
    const pages = this.pages((abortSignal) =>
      this.container.listBlobsByHierarchy('/', { prefix: this.prefix + prefix, abortSignal }),
    );
    const isNew = newDirectories();
    for await (const { segment } of pages) {
      for (const { name } of segment.blobPrefixes ?? []) if (isNew(name)) yield name.slice(this.prefix.length);
    }
  }

  override async remove(keys: readonly string[]): Promise<void> {
    await eachOf(keys, async (key) => {
      await this.ask((abortSignal) => this.blob(key).deleteIfExists({ abortSignal }));
    });
  }

  override async removeParts(key: string): Promise<void> {
    const blob = this.blob(key);
    const blocks = await this.ask((abortSignal) => unlessAbsent(blob.getBlockList('uncommitted', { abortSignal })));
    if (!blocks?.uncommittedBlocks?.length) return;
    // Blocks are dropped by a commit without them: a deletion could remove an object that is being committed.
    const version = await this.commit(blob, []);
    if (version === undefined) return;
    await this.ask((abortSignal) => blob.deleteIfExists({ abortSignal, conditions: { ifMatch: version } }));
  }

  override async checkRights(key: string): Promise<void> {
    const first = this.pages((abortSignal) => this.container.listBlobsFlat({ prefix: this.prefix + key, abortSignal })).next();
    await Promise.all([
      this.read(key).catch(missingRight('blobs/read', isForbidden)),
      first.catch(missingRight('listing blobs', isForbidden)),
      this.remove([key]).catch(missingRight('blobs/delete', isForbidden)),
      this.removeParts(key).catch(missingRight('reading the list of blocks', isForbidden)),
    ]);
  }

  override close(): void {
    // Nothing to close: the SDK has one connection pool for the whole process, which doesn't keep the process alive.
  }

  private blob(key: string): BlockBlobClient {
    return this.container.getBlockBlobClient(this.prefix + key);
  }

  private put(key: string, bytes: Uint8Array, conditions: BlobRequestConditions): Promise<string | undefined> {
    const blob = this.blob(key);
    return this.write(blob, (metadata, abortSignal, onProgress) =>
      blob.upload(bodyOf(bytes, onProgress), bytes.length, { abortSignal, metadata, conditions }),
    );
  }

  private commit(blob: BlockBlobClient, ids: string[]): Promise<string | undefined> {
    return this.write(blob, (metadata, abortSignal) =>
      blob.commitBlockList(ids, { abortSignal, metadata, conditions: { ifNoneMatch: '*' } }),
    );
  }

  private write(
    blob: BlockBlobClient,
    request: (metadata: { nonce: string }, abortSignal: AbortSignal, onProgress: () => void) => Promise<{ etag?: string }>,
  ): Promise<string | undefined> {
    const nonce = randomUUID();
    return this.ask(async (abortSignal, onProgress) => {
      try {
        return given((await request({ nonce }, abortSignal, onProgress)).etag);
      } catch (error) {
        if (!hasCode(error, 'BlobAlreadyExists', 'ConditionNotMet', 'InvalidBlockList')) throw error;
        const there = await unlessAbsent(blob.getProperties({ abortSignal }));
        // The nonce shows that this write succeeded: its answer was lost, and the SDK has repeated the request.
        if (there?.metadata?.nonce === nonce) return given(there.etag);
        // With `InvalidBlockList`, the blocks are gone. If an object is at the key, its commit has dropped the blocks.
        if (!there && hasCode(error, 'InvalidBlockList')) throw error;
        return undefined;
      }
    });
  }

  /** The pieces of a download. Not a generator: one ended before its first piece could not release the connection. */
  private piecesOf(body: Body): AsyncIterableIterator<Uint8Array> {
    const pieces = body[Symbol.asyncIterator]();
    return {
      [Symbol.asyncIterator]() {
        return this;
      },
      next: () =>
        this.ask(() => pieces.next()).catch((error: unknown) => {
          body.destroy();
          throw error;
        }),
      return: () => {
        body.destroy();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  private async *pages<Page extends { continuationToken?: string }>(
    list: (abortSignal: AbortSignal) => { byPage(settings: { continuationToken?: string; maxPageSize?: number }): AsyncIterator<Page> },
  ): AsyncGenerator<Page> {
    let continuationToken: string | undefined;
    do {
      const page = await this.ask((abortSignal) =>
        list(abortSignal).byPage({ continuationToken, maxPageSize: this.pageSize }).next(),
      );
      if (page.done) return;
      yield page.value;
      ({ continuationToken } = page.value);
    } while (continuationToken);
  }

  /**
   * Performs a request within the time-out, counted from the last progress that the request reports; otherwise aborts
   * it. By itself, the SDK would wait for a silent store forever.
   */
  private async ask<T>(request: (abortSignal: AbortSignal, onProgress: () => void) => Promise<T>): Promise<T> {
    await beginCall();
    const controller = new AbortController();
    const silence = (): Error => new StoreSilentError(this.timeoutMs);
    return withTimeLimit(this.timeoutMs, (onProgress) => request(controller.signal, onProgress), silence, (error) => { controller.abort(error); });
  }
}

/** The body of a request. Each piece of a long one counts as progress. */
const bodyOf = (bytes: Uint8Array, onProgress: () => void): Uint8Array | (() => Readable) =>
  bytes.length > SHORT_BODY_BYTES ? () => Readable.from(piecesWith(onProgress, bytes)) : bytes;

function* piecesWith(onProgress: () => void, bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    onProgress();
    yield bytes.subarray(at, at + PIECE_BYTES);
  }
}

const isForbidden = (error: unknown): boolean => error instanceof RestError && error.statusCode === 403;

/** Whether an error has one of Azure's codes. The HTTP status isn't enough: 404 may also mean a missing container. */
const hasCode = (error: unknown, ...codes: string[]): boolean =>
  error instanceof RestError && codes.includes((error.details as { errorCode?: string } | undefined)?.errorCode ?? error.code ?? '');

async function unlessAbsent<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (hasCode(error, 'BlobNotFound')) return undefined;
    throw error;
  }
}

/** Asserts that an answer of Azure has a value that the SDK's types declare as optional: every answer has it. */
function given<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('The answer of the store is incomplete.');
  return value;
}

const ageMs = (answeredAt: Date | undefined, writtenAt: Date | undefined): number =>
  Math.max(0, given(answeredAt).getTime() - given(writtenAt).getTime());
