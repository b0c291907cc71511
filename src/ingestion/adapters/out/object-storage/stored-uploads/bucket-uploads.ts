import { Logger } from '@nestjs/common';
import { MINUTE_MS } from '../../../../../common/durations.js';
import { storageFailure } from '../../../../application/storage-failure.js';
import { type ByteRange, type CustomerAccess, type LineMemory, type RemovalOptions, StoredUploads, type UploadFilter, type UploadPage, type UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import type { StorageLogger } from '../../../../application/storage-logger.js';
import type { Upload } from '../../../../domain/upload.js';
import { asJob } from '../begin-call.js';
import type { Bucket } from '../bucket.js';
import { RETENTION_TURN } from '../keys.js';
import { dateAt } from '../segment-names.js';
import { SharedJob } from '../shared-job.js';
import { BusyDays } from './busy-days.js';
import { openFile } from './content.js';
import { DaySources } from './day-sources.js';
import { type PageQuery, readPage } from './newest-first.js';
import { PageMemory } from './page-memory.js';
import { SegmentGoneError } from './line-reading.js';
import { UploadRemoval } from './upload-removal.js';
import { findLine } from './upload-search.js';

const MAX_ROUNDS = 10;
/** The processes that share a bucket remove expired uploads at most once in this time, all together. */
const RETENTION_INTERVAL_MS = 50 * MINUTE_MS;

/** Finds, lists and removes the uploads in a bucket, by the times in the names of segments; there is no other index. */
export class BucketUploads extends StoredUploads {
  private readonly removal: UploadRemoval;
  private readonly busyDays = new BusyDays();

  /** @param onRemoved called after each removal of uploads, even a failed one. */
  constructor(
    private readonly bucket: Bucket,
    private readonly onRemoved: () => void = () => undefined,
    logger: StorageLogger = new Logger(BucketUploads.name),
  ) {
    super();
    this.removal = new UploadRemoval(bucket, logger);
  }

  override async find(uploadId: string, memory?: LineMemory): Promise<Upload | undefined> {
    return (await findLine(this.bucket, uploadId, memory).catch(storageFailure('The uploads could not be read.')))?.upload;
  }

  override list(filter: UploadFilter, limit: number, after?: UploadPosition, memory?: LineMemory): Promise<UploadPage> {
    return asJob(() => this.page({ filter, limit, after }, new PageMemory(memory))).catch(storageFailure('The uploads could not be listed.'));
  }

  override async openContent({ content }: Upload, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    return content ? openFile(this.bucket, content.path, range, content.size) : undefined;
  }

  override remove(uploadId: string, mayAccess?: CustomerAccess): Promise<boolean> {
    return this.removal.remove(uploadId, mayAccess).catch(storageFailure('An upload could not be removed.')).finally(this.onRemoved);
  }

  override removeAll(filter: UploadFilter, options: RemovalOptions = {}): Promise<number> {
    return this.removal.removeAll(filter, options).catch((error: unknown) => {
      options.signal?.throwIfAborted();
      return storageFailure('Uploads could not be removed.')(error);
    }).finally(this.onRemoved);
  }

  override async removeExpired(end: Date, options: RemovalOptions = {}): Promise<number> {
    const isOurs = await new SharedJob(this.bucket, RETENTION_TURN, RETENTION_INTERVAL_MS).take().catch(storageFailure('Expired uploads could not be removed.'));
    return isOurs ? this.removeAll({ to: this.untilExpired(end) }, options) : 0;
  }

  /**
   * Moves `end` back by whole days (UTC) if this machine's time, from which it was computed, is on a later day than the
   * store's: uploads expire by days.
   */
  private untilExpired(end: Date): Date {
    const aheadMs = beginningOfDay(Date.now()) - beginningOfDay(this.bucket.storeTime);
    return new Date(end.getTime() - Math.max(0, aheadMs));
  }

  private async page(query: PageQuery, memory: PageMemory): Promise<UploadPage> {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const sources = new DaySources(this.bucket, query, this.busyDays);
      try {
        const page = await readPage(await sources.all(), query, memory);
        if (!(await sources.hasMoved())) return page;
      } catch (error) {
        if (!(error instanceof SegmentGoneError)) throw error;
      }
    }
    throw new Error('The segments are compacted faster than they can be read.');
  }
}

const beginningOfDay = (time: number): number => Date.parse(dateAt(time));
