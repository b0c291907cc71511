import { decodeIndexLine } from '../../../../application/encoded-upload.js';
import { UPLOAD_ID } from '../../../../domain/layout-names.js';
import { utcDate } from '../../../../domain/layout.js';
import { MAX_UPLOAD_DURATION_MS, UPLOAD_KINDS, type Upload } from '../../../../domain/upload.js';
import { MAX_DISORDER_MS } from '../segment.js';
import { NEWLINE } from '../index-lines.js';
import type { SegmentReader } from './segment-reader.js';
import type { Segments } from './segments.js';

const MIB = 1024 * 1024;
/** Most uploads are complete soon after they began. Their lines are within this many bytes. */
const NEAR_BYTES = 2 * MIB;
const CHUNK_BYTES = MIB;

/** A line, and the segment in which it was found. */
export interface FoundLine {
  readonly segment: string;
  readonly upload: Upload;
}

/** A part of a segment that may contain a line. */
interface Range {
  readonly segment: SegmentReader;
  readonly from: number;
  readonly to: number;
}

/**
 * Finds the line of an upload: in segments of the days on which it may have been complete, from the time of its id on.
 * Looks first where the line is if the upload took a short time. Reads at most the lines of the 24 hours after the id.
 */
export async function findLine(segments: Segments, uploadId: string): Promise<FoundLine | undefined> {
  const beganAt = timeOf(uploadId);
  if (beganAt === undefined) return undefined;
  const opened: SegmentReader[] = [];
  try {
    const ranges: Range[] = [];
    for await (const segment of candidates(segments, beganAt)) {
      opened.push(segment);
      const { low } = await segment.seek(beganAt - MAX_DISORDER_MS);
      ranges.push({ segment, from: low, to: segment.length });
    }
    return (await searchNear(ranges, uploadId, beganAt)) ?? (await search(ranges, uploadId));
  } finally {
    await Promise.all(opened.map((segment) => segment.close()));
  }
}

/** The time in a version 7 UUID in milliseconds since 1970 (RFC 9562, 5.7); undefined for another text. */
function timeOf(uploadId: string): number | undefined {
  if (!UPLOAD_ID.test(uploadId) || uploadId[14] !== '7') return undefined;
  const time = Number.parseInt(uploadId.slice(0, 8) + uploadId.slice(9, 13), 16);
  return time + MAX_UPLOAD_DURATION_MS + MAX_DISORDER_MS > LATEST_MS ? undefined : time;
}

/** The end of the year 9999, the last time that RFC 3339 can write. */
const LATEST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/** Opens the segments that have lines received in the 24 hours after a time. */
async function* candidates(segments: Segments, beganAt: number): AsyncGenerator<SegmentReader> {
  const endedAt = beganAt + MAX_UPLOAD_DURATION_MS;
  for (const day of new Set([utcDate(new Date(beganAt)), utcDate(new Date(endedAt))])) {
    for (const kind of UPLOAD_KINDS) {
      for (const path of await segments.of(kind, day)) {
        const segment = await segments.open(path);
        if (!segment) continue;
        const [first, last] = await Promise.all([segment.firstHead(), segment.lastHead()]);
        const isTooNew = first && first.receivedAt > endedAt + MAX_DISORDER_MS;
        const isTooOld = last && last.receivedAt < beganAt - MAX_DISORDER_MS;
        if (isTooNew || isTooOld) await segment.close();
        else yield segment;
      }
    }
  }
}

async function searchNear(ranges: readonly Range[], uploadId: string, beganAt: number): Promise<FoundLine | undefined> {
  for (const { segment, from, to } of ranges) {
    const { low, high } = await segment.seek(beganAt);
    const near = { segment, from: Math.max(from, low - NEAR_BYTES / 8), to: Math.min(to, high + NEAR_BYTES) };
    const found = await searchIn(near, uploadId);
    if (found) return found;
  }
  return undefined;
}

async function search(ranges: readonly Range[], uploadId: string): Promise<FoundLine | undefined> {
  for (const range of ranges) {
    const found = await searchIn(range, uploadId);
    if (found) return found;
  }
  return undefined;
}

async function searchIn({ segment, from, to }: Range, uploadId: string): Promise<FoundLine | undefined> {
  const member = Buffer.from(`"upload_id":"${uploadId}"`);
  // Chunks overlap, so that a member across their border is found.
  for (let at = from; at < to; at += CHUNK_BYTES) {
    const chunk = await segment.read(at, Math.min(to + member.length, segment.length, at + CHUNK_BYTES + member.length));
    for (let found = chunk.indexOf(member); found >= 0; found = chunk.indexOf(member, found + 1)) {
      const upload = await uploadAt(segment, at + found);
      if (upload?.uploadId === uploadId) return { segment: segment.path, upload };
    }
  }
  return undefined;
}

/** The upload of the line around a position. */
async function uploadAt(segment: SegmentReader, position: number): Promise<Upload | undefined> {
  // The id is the first member of a line.
  let begin = position;
  const before = await segment.read(Math.max(0, position - CHUNK_BYTES), position);
  begin -= before.length - (before.lastIndexOf(NEWLINE) + 1);
  const line = await segment.lineFrom(begin);
  return line && (await decodeIndexLine(line.bytes));
}
