import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { asMarker, type PublicationMarker } from './pending-markers.js';

/** A small file that is being published. */
export interface JournalRecord {
  readonly uploadId: string;
  readonly marker: PublicationMarker;
  readonly bytes: Uint8Array;
}

/**
 * Layout of a record: magic number, CRC-32 of all that follows, epoch, text length, byte length, text (JSON), bytes.
 */
const MAGIC = 0x4c444a31;
const CHECKSUM_AT = 4;
const EPOCH_AT = 8;
const EPOCH_BYTES = 8;
const TEXT_LENGTH_AT = 16;
const LENGTH_AT = 20;
const HEAD_BYTES = 24;

/** Random bytes that distinguish the records of one use of a journal from leftovers of an earlier use. */
export const newEpoch = (): Buffer => randomBytes(EPOCH_BYTES);

/** Encodes a record without its epoch and checksum; `stampRecord` adds them. */
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

/** Whether bytes are a journal. A journal without records begins with a zero byte, or has fewer than four bytes. */
export const isJournal = (bytes: Buffer): boolean => bytes.length < CHECKSUM_AT || bytes[0] === 0 || bytes.readUInt32BE() === MAGIC;

/** Yields the records of a journal before the first that is incomplete, damaged or left over from an earlier use. */
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

/** The upload's id and marker in the text of a record; undefined if the text isn't that of a record. */
function parseText(text: string): Omit<JournalRecord, 'bytes'> | undefined {
  try {
    const { upload_id: uploadId, ...data } = JSON.parse(text) as { upload_id: string };
    const marker = asMarker(uploadId, data);
    return marker && 'content_path' in marker ? { uploadId, marker } : undefined;
  } catch {
    return undefined;
  }
}
