import { Logger, type OnApplicationShutdown } from '@nestjs/common';
import { FREE_BYTES } from '../../../../common/memory-budget.js';
import { observeMethods, type Observer } from '../../../../common/observer.js';
import { ServiceError } from '../../../../common/service-error.js';
import { PROBE_TIMEOUT_MS, SharedProbe } from '../../../../common/shared-probe.js';
import { behindHead, readHead } from '../../../../common/stream-head.js';
import { withTimeLimit } from '../../../../common/time-limit.js';
import { readContent } from '../../../application/content.js';
import { FileStorage, type UploadDraft, type UploadReceipt } from '../../../application/ports/file-storage.port.js';
import type { IndexFlush } from '../../../application/ports/index-flush.js';
import type { LineQueue } from '../../../application/ports/line-queue.js';
import type { StoredUploads } from '../../../application/ports/stored-uploads.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import { encodeIndexLine, segmentDirectory } from '../../../domain/layout.js';
import type { Upload } from '../../../domain/upload.js';
import { type Bucket, StoreSilentError } from './bucket.js';
import { Compactor } from './compactor.js';
import { ContentSource } from './content-source.js';
import { BucketEventOutbox } from './event-outbox/bucket-event-outbox.js';
import { LateSegments } from './event-outbox/late-segments.js';
import { type Claim, IdempotencyClaims } from './idempotency-claims.js';
import { FENCE, HEALTH, HEALTH_RIGHTS, markerKey } from './keys.js';
import type { Lease } from './lease.js';
import { LostClaims } from './lost-claims.js';
import { Retries } from './retries.js';
import { SegmentLog, TOO_MANY_TO_UNDO } from './segment-log.js';
import { mayShare, segmentOf } from './segment-names.js';
import { SegmentWriter } from './segment-writer.js';
import { SmallFiles } from './small-files.js';
import { BucketUploads } from './stored-uploads/bucket-uploads.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { Sweeper } from './sweeper.js';
import type { UploadMarker } from './upload-marker.js';
import { UploadMarkers } from './upload-markers.js';

const MAX_LEFT = 1_000;
const RIGHTS_HEALTHY_FOR_MS = 60_000;

export interface ObjectStorageOptions {
  readonly bucket: Bucket;
  readonly onFlush?: (flush: IndexFlush) => void;
  readonly observeWait?: Observer;
  readonly logger?: StorageLogger;
}

/**
 * Stores uploads in a bucket, which any number of processes may use at once. A process keeps no durable state of its
 * own.
 *
 * An index line describes an upload; a segment is an object with lines. Uploads may share segments, except those with a
 * file of more than 64 KiB, under an idempotency key, or excluded by `mayShare`: these have a segment of their own. A
 * marker (for files) or claim (for a key) tells other processes the name of the segment before the segment exists. If
 * another process creates an empty object in place of the segment first, the uploads have failed for good.
 */
export class ObjectStorageFileStorage extends FileStorage implements LineQueue, OnApplicationShutdown {
  override readonly storedUploads: StoredUploads;
  override readonly eventOutbox: BucketEventOutbox;
  private readonly bucket: Bucket;
  private readonly retries: Retries;
  private readonly writer: SegmentWriter;
  private readonly log: SegmentLog;
  private readonly smallFiles: SmallFiles;
  private readonly claims: IdempotencyClaims;
  private readonly markers: UploadMarkers;
  private readonly lostClaims: LostClaims;
  private readonly sweeper: Sweeper;
  private readonly compactor: Compactor;
  private readonly health: SharedProbe;
  private readonly storing = new Set<Promise<unknown>>();
  private rightsHealthyUntil = 0;
  private closing: Promise<void> | undefined;

  constructor({ bucket, onFlush = () => undefined, observeWait, logger = new Logger(ObjectStorageFileStorage.name) }: ObjectStorageOptions) {
    super();
    this.bucket = bucket;
    this.retries = new Retries(logger);
    const late = new LateSegments(bucket);
    this.eventOutbox = new BucketEventOutbox(bucket, logger);
    this.storedUploads = new BucketUploads(bucket, () => { this.eventOutbox.wake(); }, logger);
    this.writer = new SegmentWriter(bucket, late, onFlush);
    this.log = new SegmentLog(bucket, this.writer, new Retries(logger));
    this.claims = new IdempotencyClaims(bucket, late, this.retries, logger);
    this.markers = new UploadMarkers(bucket);
    this.sweeper = new Sweeper(bucket, logger);
    this.smallFiles = new SmallFiles({ bucket, writer: this.writer, markers: this.markers, sweeper: this.sweeper, retries: this.retries });
    if (observeWait) {
      observeMethods(this.log, observeWait, { append: 'wait for the index' });
      observeMethods(this.smallFiles, observeWait, { store: 'wait for a batch' });
    }
    this.lostClaims = new LostClaims(bucket, late, logger);
    this.compactor = new Compactor(bucket, this.lostClaims, logger);
    this.health = new SharedProbe(() => this.probe());
    this.sweeper.start();
    this.lostClaims.start();
    this.compactor.start();
  }

  get waitingLines(): number {
    return this.log.waitingLines + this.smallFiles.waitingLines;
  }

  override async store(draft: UploadDraft): Promise<UploadReceipt> {
    this.assertNotClosed();
    if (this.isRefusing) throw new ServiceError('storage-failure', TOO_MANY_TO_UNDO);
    const storing = this.storeNow(draft);
    this.storing.add(storing);
    try {
      return await storing;
    } finally {
      this.eventOutbox.wake();
      this.storing.delete(storing);
    }
  }

  override now(): number {
    return this.bucket.now;
  }

  override async checkHealth(): Promise<void> {
    this.assertNotClosed();
    await this.health.check().catch(storageFailure('The store took no object.'));
  }

  close(): Promise<void> {
    this.closing ??= this.finishAll();
    return this.closing;
  }

  onApplicationShutdown(): Promise<void> {
    return this.close();
  }

  private get isRefusing(): boolean {
    return this.retries.size >= MAX_LEFT || this.log.isRefusing;
  }

  /** Checks the store. Rejects if a call hangs, so that the next health check can begin a new probe. */
  private async probe(): Promise<void> {
    if (this.isRefusing) throw new Error(TOO_MANY_TO_UNDO);
    const writing = this.bucket.replace(HEALTH, Buffer.from('well\n'));
    await withTimeLimit(PROBE_TIMEOUT_MS, () => Promise.all([writing, this.checkRights()]), () => new StoreSilentError(PROBE_TIMEOUT_MS));
  }

  private async checkRights(): Promise<void> {
    if (performance.now() < this.rightsHealthyUntil) return;
    await this.bucket.checkRights(HEALTH_RIGHTS);
    this.rightsHealthyUntil = performance.now() + RIGHTS_HEALTHY_FOR_MS;
  }

  private async storeNow(draft: UploadDraft): Promise<UploadReceipt> {
    const { idempotencyScope: scope, content } = draft;
    if (scope === null) return content ? this.keepUnkeyedFile(draft, content) : this.keepLine(draft);
    await this.lostClaims.opened;
    const keep = (claim: Lease<Claim>) => (content ? this.keepFile(draft, content, claim) : this.keepKeyed(draft, claim));
    return this.claims.once({ scope, kind: draft.kind }, this.ownClaim(draft), keep, async () => draft.conclude(content && (await readContent(content.bytes))));
  }

  private ownClaim(draft: UploadDraft): Claim {
    return { upload_id: draft.uploadId, segment: this.expectedSegment(draft), content_path: draft.content?.path ?? null };
  }

  /**
   * The key that the upload's own segment will have, unless the upload turns out to be slow, or is received on the next
   * UTC day. Then `announce` writes another key to the upload's marker and claim.
   */
  private expectedSegment({ kind, uploadId }: UploadDraft): string {
    return segmentOf({ kind, uploadId, receivedAt: new Date(this.bucket.now) });
  }

  private async keepLine(draft: UploadDraft): Promise<Upload> {
    const upload = await draft.conclude(null);
    const line = await encodeIndexLine(upload);
    if (!mayShare(upload)) return this.keepAlone(draft, upload);
    await this.log
      .append(segmentDirectory(upload.kind, upload.receivedAt), { uploadId: upload.uploadId, line })
      .catch(storageFailure('A segment could not be written.'));
    return upload;
  }

  /** An upload with a small file is concluded before anything of it is written, so that it can share requests. */
  private async keepUnkeyedFile(draft: UploadDraft, { path, bytes }: NonNullable<UploadDraft['content']>): Promise<Upload> {
    const head = await readHead(bytes, FREE_BYTES);
    if (head.rest) return this.keepFile(draft, { path, bytes: behindHead(head) });
    const whole = Buffer.concat(head.chunks);
    const upload = await draft.conclude(await readContent([whole]));
    const line = await encodeIndexLine(upload);
    if (!mayShare(upload) || line.length > FREE_BYTES) return this.keepFile({ ...draft, conclude: () => Promise.resolve(upload) }, { path, bytes: behindHead(head) });
    await this.smallFiles.store(segmentDirectory(upload.kind, upload.receivedAt), { uploadId: upload.uploadId, line, path, bytes: whole });
    return upload;
  }

  private async keepKeyed(draft: UploadDraft, claim: Lease<Claim>): Promise<Upload> {
    const concluding = draft.conclude(null);
    await concluding.catch((error: unknown) => this.release(claim, error));
    return this.keepAlone(draft, await concluding, claim);
  }

  private async keepAlone(draft: UploadDraft, upload: Upload, claim?: Lease<Claim>): Promise<Upload> {
    let segment: string | undefined;
    try {
      segment = await announce(upload, claim ? [claim] : []);
      await this.writeLine(upload, segment);
      return upload;
    } catch (error) {
      if (segment !== undefined) this.takeBack(draft, segment, undefined, claim);
      else if (claim) await this.release(claim, error);
      throw error;
    }
  }

  private async keepFile(draft: UploadDraft, { path, bytes }: NonNullable<UploadDraft['content']>, claim?: Lease<Claim>): Promise<Upload> {
    const marking = this.markers
      .begin(markerKey(draft.uploadId), { content_path: path, segment: this.expectedSegment(draft) })
      .catch(storageFailure('A marker could not be written.'));
    let segment: string | undefined;
    const content = new ContentSource(bytes, async (stored) => {
      const upload = await draft.conclude(stored);
      return { upload, segment: await announce(upload, claim ? [await marking, claim] : [await marking]) };
    });
    // If the marker can't be written, the upload fails, so the client needn't send the rest of the file.
    marking.catch((error: unknown) => { content.fail(error); });
    try {
      await this.bucket.upload(path, content).catch(storageFailureUnless(() => content.hasFailed, 'A file could not be written.'));
      const { upload, segment: announced } = content.concluded;
      segment = announced;
      await this.writeLine(upload, segment);
      this.markers.end(marking);
      return upload;
    } catch (error) {
      content.fail(error);
      if (!content.hasFailed) {
        this.takeBack(draft, segment, marking, claim);
      } else {
        this.markers.endFailed(marking, path);
        if (claim) await this.release(claim, error);
      }
      throw error;
    }
  }

  private async writeLine(upload: Upload, segment: string): Promise<void> {
    const line = await encodeIndexLine(upload);
    await this.writer.create(segment, [{ uploadId: upload.uploadId, line }]).catch(storageFailure('A segment could not be written.'));
  }

  /**
   * Frees the idempotency key of a failed upload. Waits for the first attempt, except after a failure of the storage,
   * so that the client can use the key again as soon as it gets the response.
   */
  private async release(claim: Lease<Claim>, error: unknown): Promise<void> {
    const releasing = this.claims.release(claim);
    if (!(error instanceof ServiceError && error.kind === 'storage-failure')) await releasing;
  }

  /**
   * Undoes, in the background, an upload whose requests the store may have carried out, or may carry out later. First
   * the claim decides: if a repeated request was answered with the upload's receipt, the upload stays. Then the marker
   * decides: if a sweeper has found the upload's line, the upload stays.
   */
  private takeBack(draft: UploadDraft, segment: string | undefined, marking?: Promise<Lease<UploadMarker>>, claim?: Lease<Claim>): void {
    let hasFailed: boolean | undefined;
    this.retries.begin(`Undoing the upload ${draft.uploadId}`, async () => {
      if (claim && segment !== undefined) hasFailed ??= await this.claims.fail(claim);
      if (hasFailed === false) return;
      // If the write of the marker failed, the marker may exist nevertheless. The sweeper then removes the upload.
      const marker = await marking?.catch(() => undefined);
      if (!marker) {
        if (segment !== undefined) await this.bucket.replace(segment, FENCE);
      } else if (!(await this.sweeper.undo(marker))) {
        // A sweeper has found the line, so the upload stays, and the claim must no longer say `failed`. It doesn't say
        // `kept` either, so that the next repeated request announces the segment to the event outbox if it was written
        // late.
        await claim?.endWith({});
        return;
      }
      if (claim) await this.claims.release(claim);
    });
  }

  private assertNotClosed(): void {
    if (this.closing) throw new ServiceError('storage-failure', 'The storage is closed.');
  }

  private async finishAll(): Promise<void> {
    await Promise.allSettled(this.storing);
    await Promise.all([this.log.close(), this.smallFiles.close()]);
    await this.retries.close();
    await this.markers.close();
    await Promise.all([this.sweeper.close(), this.lostClaims.close(), this.compactor.close(), this.eventOutbox.close()]);
    this.bucket.close();
  }
}

/** Writes the key of an upload's segment to its marker and claim. Must resolve before the file or line is visible. */
async function announce(upload: Upload, leases: readonly (Lease<Claim> | Lease<UploadMarker>)[]): Promise<string> {
  const segment = segmentOf(upload);
  await Promise.all(leases.map((lease) => lease.setSegment(segment))).catch(storageFailure('A marker or claim could not be renewed.'));
  return segment;
}

const storageFailureUnless =
  (isOther: () => boolean, message: string) =>
  (cause: unknown): never => {
    if (isOther()) throw cause;
    return storageFailure(message)(cause);
  };
