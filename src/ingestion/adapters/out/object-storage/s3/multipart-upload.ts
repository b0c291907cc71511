import {
  type CompletedPart,
  CompleteMultipartUploadCommand,
  type CompleteMultipartUploadCommandOutput,
  CreateMultipartUploadCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { MIB } from '../../../../../common/sizes.js';
import { withTimeLimit } from '../../../../../common/time-limit.js';
import { ObjectExistsError, StoreSilentError } from '../bucket.js';
import type { PartMemory } from '../part-memory.js';
import { sendParts } from '../parts.js';
import { ConditionalWrite } from './conditional-write.js';
import type { Leftovers } from './leftovers.js';
import { putObject } from './object-requests.js';
import type { S3Connection } from './s3-connection.js';
import { isPassing } from './s3-errors.js';
import { abortUpload, removeParts } from './unfinished-parts.js';

const PARTS_AT_ONCE = 4;
const MAX_BYTES_AT_ONCE = 20 * MIB;
const MAX_GIVING_BACK_MS = 2_000;
const PART_CHECKSUM = { ChecksumAlgorithm: 'CRC32' } as const;

export interface UploadResources {
  readonly connection: S3Connection;
  readonly memory: PartMemory;
  readonly leftovers: Leftovers;
}

/** Creates one object from bytes as they arrive: in parts, or in one request if all bytes fit into one part. */
export class MultipartUpload {
  private readonly write: ConditionalWrite;
  private readonly parts: CompletedPart[] = [];
  private beginning: Promise<string | undefined> | undefined;
  private uploadId: string | undefined;
  /** Whether the store may have begun a multipart upload whose id is unknown, because the answer was lost. */
  private isUnsure = false;

  constructor(
    private readonly resources: UploadResources,
    private readonly key: string,
  ) {
    this.write = new ConditionalWrite(resources.connection, key);
  }

  /**
   * Sends all bytes, and creates the object when they have ended. Call it once. After a failure, removes the parts that
   * were sent, possibly only later. Rejects with errors of the bytes and of the SDK.
   *
   * @throws ObjectExistsError if the key is taken; StoreSilentError if the store made no progress for the time-out.
   */
  async send(bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const { connection, memory, leftovers } = this.resources;
    const source = new Source(bytes);
    const atOnce = Math.max(1, Math.min(PARTS_AT_ONCE, Math.floor(MAX_BYTES_AT_ONCE / memory.partBytes)));
    try {
      const count = await sendParts(source, { memory, atOnce }, {
        sendPart: async (part, index) => {
          const uploadId = await (this.beginning ??= connection.persist(() => this.begin()));
          this.parts[index] = await connection.persist(() => this.sendPart(uploadId, index + 1, part));
        },
        sendWhole: (whole) => this.make(() => this.sendWhole(whole)),
      });
      if (count > 0) await this.make(() => this.complete());
      if (this.isUnsure) leftovers.add(() => removeParts(connection, this.key));
    } catch (error) {
      await this.giveBack(source.hasFailed || error instanceof ObjectExistsError);
      throw error;
    }
  }

  private async make(send: () => Promise<{ readonly ETag?: string | undefined }>): Promise<void> {
    const made = await this.resources.connection.persist(() => this.write.perform(send));
    if (!made) throw new ObjectExistsError(this.key);
  }

  private sendWhole(Body: Buffer) {
    const { connection } = this.resources;
    const input = { ...this.write.object, IfNoneMatch: '*' };
    return connection.sending(connection.uploading, Body, (ending) => putObject(connection, connection.uploading, input, Body, ending));
  }

  private async begin(): Promise<string | undefined> {
    const { connection } = this.resources;
    const command = new CreateMultipartUploadCommand({ ...this.write.object, ...PART_CHECKSUM });
    try {
      ({ UploadId: this.uploadId } = await connection.within((options) => connection.uploading.send(command, options)));
      return this.uploadId;
    } catch (error) {
      this.isUnsure ||= isPassing(error) || error instanceof StoreSilentError;
      throw error;
    }
  }

  private async sendPart(UploadId: string | undefined, PartNumber: number, Body: Buffer): Promise<CompletedPart> {
    const { connection } = this.resources;
    const input = { ...connection.at(this.key), UploadId, PartNumber, Body, ...PART_CHECKSUM };
    const { ETag, ChecksumCRC32 } = await connection.whileBytesMove(connection.uploading, () => connection.uploading.send(new UploadPartCommand(input)));
    return { PartNumber, ETag, ChecksumCRC32 };
  }

  /** Completes the upload, however long that takes while bytes move: a store may need long to join many parts. */
  private async complete(): Promise<CompleteMultipartUploadCommandOutput> {
    const { connection } = this.resources;
    const input = { ...connection.at(this.key), UploadId: this.uploadId, IfNoneMatch: '*', MultipartUpload: { Parts: this.parts } };
    return connection.whileBytesMove(connection.uploading, () => connection.uploading.send(new CompleteMultipartUploadCommand(input)));
  }

  private async giveBack(isStoreHealthy: boolean): Promise<void> {
    const { key, uploadId, isUnsure } = this;
    const { connection, leftovers } = this.resources;
    if (uploadId === undefined && !isUnsure) return;
    const action = async () => {
      if (uploadId === undefined || isUnsure) await removeParts(connection, key);
      else await abortUpload(connection, key, uploadId);
    };
    if (!isStoreHealthy) {
      // The parts are removed twice: after the first time, the store may still carry out a request that sent a part.
      leftovers.add(action, 2);
      return;
    }
    try {
      await withTimeLimit(MAX_GIVING_BACK_MS, action, connection.silence);
    } catch {
      leftovers.add(action);
    }
  }
}

/** The bytes of an upload. If reading them fails, the store isn't the cause of the upload's failure. */
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
