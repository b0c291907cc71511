import { eachOf } from '../../../../../common/each-of.js';
import { OneAtATime } from '../../../../../common/one-at-a-time.js';
import { KIB, MIB } from '../../../../../common/sizes.js';
import { timeOfUuid } from '../../../../../common/uuid.js';
import type { FoundLine } from '../../../../application/found-line.js';
import { decodeIndexLine, LONG_LINE_BYTES } from '../../../../application/line-decoding.js';
import type { LineMemory } from '../../../../application/ports/stored-uploads.port.js';
import { NEWLINE } from '../../../../application/raw-lines.js';
import { UPLOAD_ID } from '../../../../domain/layout-names.js';
import { utcDate } from '../../../../domain/layout.js';
import { MAX_UPLOAD_DURATION_MS, UPLOAD_KINDS } from '../../../../domain/upload.js';
import { MAX_DISORDER_MS, type SegmentReader, type SegmentSpan } from './segment-reader.js';
import type { Segments } from './segments.js';

/**
 * The id of an upload contains the time at which the upload began, and most uploads are complete soon after. So the
 * index line is usually within NEAR_BYTES behind the place where the lines of that time begin, or, as lines aren't
 * quite in order, within BEFORE_BYTES before it.
 */
const NEAR_BYTES = 256 * KIB;
const BEFORE_BYTES = 32 * KIB;
const NEAR_CHUNK_BYTES = 128 * KIB;
const CHUNK_BYTES = MIB;
/** The `upload_id` member up to its value. A client's text can't match, because its quotes are escaped. */
const NAME = /"upload_id"\s*:\s*$/;
const NAME_BYTES = 64;

interface Wanted {
  readonly uploadId: string;
  readonly beganAt: number;
  readonly memory: LineMemory | undefined;
}

interface Candidate {
  readonly path: string;
  readonly span: SegmentSpan;
}

/**
 * Finds the index lines of uploads by their ids. An id contains the time at which the upload began, and an upload takes
 * at most 24 hours, so only segments that may have lines of the 24 hours after that time are searched.
 */
export class UploadSearch {
  private readonly scans = new OneAtATime();

  constructor(private readonly segments: Segments) {}

  /**
   * Finds the line of an upload; undefined if there is none, or the id isn't valid. If the line isn't near the time in
   * the id, scans the segments, one scan at a time: a scan may read the lines of a whole day, so several at once would
   * delay the uploads.
   *
   * @param memory where memory for a long line is taken. Default: a memory budget that all such calls share.
   */
  async find(uploadId: string, memory?: LineMemory): Promise<FoundLine | undefined> {
    const beganAt = timeOfUuid(uploadId);
    const wanted = { uploadId, beganAt, memory };
    const isPossible = UPLOAD_ID.test(uploadId) && beganAt + MAX_UPLOAD_DURATION_MS + MAX_DISORDER_MS <= LATEST_MS;
    if (!isPossible) return undefined;
    const near = (await candidates(this.segments, beganAt, beganAt)).filter(({ span }) => span.last >= beganAt);
    return (await search(this.segments, near, wanted)) ?? this.scans.run(() => this.scan(wanted));
  }

  private async scan(wanted: Wanted): Promise<FoundLine | undefined> {
    for (const candidate of await candidates(this.segments, wanted.beganAt, wanted.beganAt + MAX_UPLOAD_DURATION_MS)) {
      const latest = wanted.beganAt + (await this.segments.longestOf(candidate.path)) + MAX_DISORDER_MS;
      const found = candidate.span.first <= latest && (await search(this.segments, [candidate], wanted, latest));
      if (found) return found;
    }
    return undefined;
  }
}

/** The last time that RFC 3339 can write: its years have four digits. */
const LATEST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/** The segments that may have lines received between two times, which must be at most 24 hours apart. */
async function candidates(segments: Segments, from: number, to: number): Promise<Candidate[]> {
  const days = new Set([utcDate(new Date(from)), utcDate(new Date(to))]);
  const paths = (await Promise.all([...days].flatMap((day) => UPLOAD_KINDS.map((kind) => segments.of(kind, day))))).flat();
  const spans = new Map<string, SegmentSpan | undefined>();
  await eachOf(paths, async (path) => { spans.set(path, await segments.span(path)); });
  return paths.flatMap((path) => {
    // A segment whose first or last line isn't valid may contain any line, so it is searched, too.
    const span = spans.get(path) ?? { first: -Infinity, last: Infinity };
    return span.first <= to + MAX_DISORDER_MS && span.last >= from - MAX_DISORDER_MS ? [{ path, span }] : [];
  });
}

/** @param latest the latest time of the lines, in ms since 1970. Default: reads only lines near the id's time. */
async function search(segments: Segments, among: readonly Candidate[], wanted: Wanted, latest?: number): Promise<FoundLine | undefined> {
  const { beganAt } = wanted;
  for (const { path, span } of among) {
    const segment = await segments.open(path, wanted.memory);
    if (!segment) continue;
    try {
      const range = latest === undefined ? rangeNear(segment, span, beganAt) : rangeBetween(segment, span, beganAt, latest);
      const found = await searchIn(segment, await range, wanted);
      if (found) return found;
    } finally {
      await segment.close();
    }
  }
  return undefined;
}

interface SearchedRange {
  readonly from: number;
  readonly to: number;
  readonly chunkBytes: number;
}

async function rangeNear(segment: SegmentReader, span: SegmentSpan, beganAt: number): Promise<SearchedRange> {
  const { low, high } = await segment.seek(beganAt, span);
  return { from: Math.max(0, low - BEFORE_BYTES), to: Math.min(segment.length, high + NEAR_BYTES), chunkBytes: NEAR_CHUNK_BYTES };
}

async function rangeBetween(segment: SegmentReader, span: SegmentSpan, earliest: number, latest: number): Promise<SearchedRange> {
  const { low } = await segment.seek(earliest - MAX_DISORDER_MS, span);
  const to = latest < span.last ? (await segment.seek(latest + MAX_DISORDER_MS + 1, span)).high : segment.length;
  return { from: low, to, chunkBytes: CHUNK_BYTES };
}

async function searchIn(segment: SegmentReader, { from, to, chunkBytes }: SearchedRange, { uploadId, memory }: Wanted): Promise<FoundLine | undefined> {
  const id = Buffer.from(`"${uploadId}"`);
  // The chunks overlap, so that an `upload_id` across the border of two chunks is found.
  for (let at = from; at < to; at += chunkBytes) {
    const begin = Math.max(0, at - NAME_BYTES);
    const chunk = await segment.read(begin, Math.min(to + id.length, segment.length, at + chunkBytes + id.length));
    for (let found = chunk.indexOf(id); found >= 0; found = chunk.indexOf(id, found + 1)) {
      if (!NAME.test(chunk.toString('latin1', Math.max(0, found - NAME_BYTES), found))) continue;
      const newline = chunk.lastIndexOf(NEWLINE, found);
      const lineEnd = chunk.indexOf(NEWLINE, found);
      const line =
        newline >= 0 && lineEnd >= 0
          ? chunk.subarray(newline + 1, lineEnd)
          : (await segment.lineFrom((newline >= 0 ? begin + newline : await segment.newlineBefore(begin)) + 1))?.bytes;
      // This memory is for the decoded upload and the answer, not for the line itself.
      if (line && line.length > LONG_LINE_BYTES) await memory?.take(line.length);
      const upload = line && (await decodeIndexLine(line));
      if (upload?.uploadId === uploadId) return { segment: segment.path, upload };
    }
  }
  return undefined;
}
