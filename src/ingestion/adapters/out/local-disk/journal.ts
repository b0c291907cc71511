import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { parseJson } from '../../../../common/text.js';
import { FileRemovedError } from './disk-error.js';
import { closeQuietly, type Disk, type DiskFile } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';
import { asPendingMarker, type PublicationMarker } from './pending-markers.js';
import type { StorePresence } from './store-presence.js';

export interface JournalRecord {
  readonly uploadId: string;
  readonly marker: PublicationMarker;
  readonly bytes: Uint8Array;
}

/**
 * The layout of a record in a journal, in this order:
 *
 * - magic number
 * - CRC-32 of all that follows the CRC
 * - epoch
 * - length of the text
 * - length of the file
 * - text: the upload's id and its marker, as JSON
 * - bytes of the file
 */
const MAGIC = 0x4c444a31;
const CHECKSUM_AT = 4;
const EPOCH_AT = 8;
const EPOCH_BYTES = 8;
const TEXT_LENGTH_AT = 16;
const LENGTH_AT = 20;
const HEAD_BYTES = 24;

const ZEROS = Buffer.alloc(256 * 1024);

export interface JournalSite {
  readonly disk: Disk;
  readonly directories: DurableDirectories;
  readonly presence: StorePresence;
}

/**
 * A preallocated journal file. Each write is durable when it ends. Overwriting preallocated blocks makes that
 * cheap, because the file's size doesn't change. After a failed append the journal must get no more records.
 */
export class Journal {
  /** False after a failed append or the removal of the journal: then it must get no more records. */
  isSound = true;
  /** Whether the journal's file must be kept until it is replayed. */
  isLeft = false;
  private epoch = newEpoch();
  private length = 0;
  private held = 0;
  private onReleased: (() => void) | undefined;

  private constructor(
    private readonly site: JournalSite,
    private readonly file: DiskFile,
    readonly path: string,
    private readonly bytes: number,
  ) {}

  /**
   * Creates a journal. Resolves when the bytes and the name of its preallocated file are durable.
   *
   * @param bytes the preallocated length; a single record may be longer.
   */
  static async make(site: JournalSite, path: string, bytes: number): Promise<Journal> {
    const { disk, directories } = site;
    const directory = dirname(path);
    const file = await directories.within(directory, () => disk.createSynchronized(path));
    try {
      await file.write(zeros(bytes), 0);
      await directories.sync(directory);
      return new Journal(site, file, path, bytes);
    } catch (error) {
      await closeQuietly(file);
      // If removing the file fails too, recovery finds a journal without records, and removes it.
      await disk.remove(path).catch(() => undefined);
      throw error;
    }
  }

  get room(): number {
    return this.bytes - this.length;
  }

  accepts(bytes: number): boolean {
    return this.length === 0 || bytes <= this.room;
  }

  /**
   * Appends records. Resolves when they are durable. Call `release` or `leave` once for each, unless `append` rejects.
   *
   * @throws FileRemovedError; an error of the file system.
   */
  async append(records: readonly Buffer[]): Promise<void> {
    this.held += records.length;
    try {
      for (const record of records) stampRecord(record, this.epoch);
      await this.file.write(records, this.length);
      if (!(await this.file.standsAt(this.path))) throw new FileRemovedError(this.path);
      for (const { length } of records) this.length += length;
    } catch (error) {
      this.isSound = false;
      for (let count = records.length; count > 0; count--) this.release();
      throw error;
    }
  }

  release(): void {
    this.held -= 1;
    if (this.held === 0) this.onReleased?.();
  }

  leave(): void {
    this.isLeft = true;
    this.release();
  }

  async released(): Promise<void> {
    if (this.held > 0) await new Promise<void>((resolve) => (this.onReleased = resolve));
  }

  /** Makes recovery find no records in the journal. The old bytes stay in the file until new records overwrite them. */
  async clear(): Promise<void> {
    await this.file.write([Buffer.alloc(1)], 0);
    this.epoch = newEpoch();
    this.length = 0;
  }

  async close(): Promise<void> {
    await this.file.close();
  }

  async remove(): Promise<void> {
    this.isSound = false;
    await this.close();
    await this.site.disk.remove(this.path);
  }
}

/** Random bytes that distinguish the records of one use of a journal from leftovers of an earlier use. */
export const newEpoch = (): Buffer => randomBytes(EPOCH_BYTES);

/** Encodes a record, but without its epoch and checksum: `stampRecord` sets these. */
export function encodeRecord({ uploadId, marker, bytes }: JournalRecord): Buffer {
  const text = Buffer.from(JSON.stringify({ upload_id: uploadId, ...marker }));
  const record = Buffer.allocUnsafe(HEAD_BYTES + text.length + bytes.length);
  record.writeUInt32BE(MAGIC);
  record.writeUInt32BE(text.length, TEXT_LENGTH_AT);
  record.writeUInt32BE(bytes.length, LENGTH_AT);
  record.set(text, HEAD_BYTES);
  record.set(bytes, HEAD_BYTES + text.length);
  return record;
}

/** Sets the epoch and the checksum of an encoded record. */
export function stampRecord(record: Buffer, epoch: Buffer): void {
  record.set(epoch, EPOCH_AT);
  record.writeUInt32BE(crc32(record.subarray(EPOCH_AT)), CHECKSUM_AT);
}

/** Whether a file begins as a journal does, with or without records. */
export const isJournal = (bytes: Buffer): boolean => bytes.length < CHECKSUM_AT || bytes[0] === 0 || bytes.readUInt32BE() === MAGIC;

/** Yields the records of a journal up to the first one that is incomplete, invalid or left over from an earlier use. */
export function* decodeRecords(journal: Buffer): Generator<JournalRecord> {
  const epoch = journal.subarray(EPOCH_AT, EPOCH_AT + EPOCH_BYTES);
  for (let at = 0, end; at + HEAD_BYTES <= journal.length && journal.readUInt32BE(at) === MAGIC; at = end) {
    const textEnd = at + HEAD_BYTES + journal.readUInt32BE(at + TEXT_LENGTH_AT);
    end = textEnd + journal.readUInt32BE(at + LENGTH_AT);
    const checked = journal.subarray(at + EPOCH_AT, end);
    if (end > journal.length || !checked.subarray(0, EPOCH_BYTES).equals(epoch)) return;
    if (crc32(checked) !== journal.readUInt32BE(at + CHECKSUM_AT)) return;
    const named = parseText(journal.toString('utf8', at + HEAD_BYTES, textEnd));
    if (!named) return;
    yield { ...named, bytes: journal.subarray(textEnd, end) };
  }
}

function parseText(text: string): Omit<JournalRecord, 'bytes'> | undefined {
  const { upload_id: uploadId, ...data } = (parseJson(text) ?? {}) as { upload_id: string };
  const marker = asPendingMarker(uploadId, data);
  return marker && 'content_path' in marker ? { uploadId, marker } : undefined;
}

function zeros(length: number): Buffer[] {
  const rest = length % ZEROS.length;
  return [...Array<Buffer>((length - rest) / ZEROS.length).fill(ZEROS), ZEROS.subarray(0, rest)];
}
