import { DAY_MS } from '../../../../../common/durations.js';
import { MIB } from '../../../../../common/sizes.js';
import { decodeIndexLine, decodeShortLine, LONG_LINE_BYTES } from '../../../../application/line-decoding.js';
import { type LineMemory, MAX_PAGE_BYTES, type UploadFilter, type UploadPage, type UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { comparePositions, positionBehind } from '../../../../domain/upload-filter.js';
import { hasValidTime, UPLOAD_KINDS, type Upload, type UploadKind } from '../../../../domain/upload.js';
import { ChunkBuffer } from './chunk-buffer.js';
import { CustomerLines } from '../../../../application/customer-lines.js';
import { headOf, type LineHead } from './line-head.js';
import { MAX_DISORDER_MS, type SegmentReader, type SegmentSpan } from './segment-reader.js';
import type { Segments } from './segments.js';

/**
 * A page ends early once this many bytes of index lines were read for it, if the next page can then begin at an older
 * position than this page did.
 */
const MAX_READ_BYTES = 32 * MIB;
/** A page also ends after a day if at least this many more segments were opened for it than it has uploads. */
const MAX_OPENED_IN_VAIN = 64;
const USUAL_LINE_BYTES = 400;
const MIN_CHUNK_BYTES = 8 * 1024;
const MAX_CHUNK_BYTES = 256 * 1024;
/** Uploads of longer lines aren't held in memory: their lines are read again when the page is made. */
const SHORT_LINE_BYTES = 2 * 1024;
const SPARE_CANDIDATES = 10_000;

interface ReadLine extends UploadPosition {
  readonly upload: Upload | undefined;
}

interface Candidate extends ReadLine {
  readonly segment: SegmentReader;
  readonly begin: number;
  readonly length: number;
}

interface BackwardReader {
  readonly path: string;
  readonly span: SegmentSpan | undefined;
  readonly wanted: CustomerLines | undefined;
  segment?: SegmentReader;
  disorderMs: number;
  /** All lines from this offset on were read, or are too new for the page. Infinity until the segment is opened. */
  end: number;
  /**
   * An upper bound for the `received_at` of the unread lines that may belong to the page, in milliseconds since 1970.
   */
  frontier: number;
}

/** Makes one page of the list of uploads (see `StoredUploads.list`). */
export class UploadList {
  private readonly earliest: number;
  private readonly latest: number;
  private readonly uploads: Upload[] = [];
  private lineBytes = 0;
  private bytesRead = 0;
  private opened = 0;
  private readonly buffer = new ChunkBuffer();
  private readonly seen = { lines: 0, bytes: 0 };

  constructor(
    private readonly segments: Segments,
    private readonly filter: UploadFilter,
    private readonly limit: number,
    private readonly after: UploadPosition | undefined,
    private readonly memory: LineMemory | undefined,
  ) {
    this.earliest = filter.from?.getTime() ?? -Infinity;
    // The list is newest first, so a position with an empty id comes after all uploads received at the position's time.
    const following = after ? after.receivedAt.getTime() - Number(after.uploadId === '') : Infinity;
    this.latest = Math.min(filter.to ? filter.to.getTime() - 1 : Infinity, following);
  }

  async page(): Promise<UploadPage> {
    const { uploads } = this;
    const kinds = this.filter.kind ? [this.filter.kind] : UPLOAD_KINDS;
    for (const day of await this.segments.days(kinds)) {
      if (!this.mayContain(day)) continue;
      const readers = await this.readersOf(kinds, day);
      try {
        const next = await this.addDay(readers, day);
        if (next) return { uploads, next };
      } finally {
        await Promise.all(readers.map(async ({ segment }) => segment?.close()));
      }
    }
    return { uploads, next: null };
  }

  private mayContain(day: string): boolean {
    const begin = Date.parse(day);
    return begin <= this.latest && begin + DAY_MS > this.earliest;
  }

  private async readersOf(kinds: readonly UploadKind[], day: string): Promise<BackwardReader[]> {
    const readers: BackwardReader[] = [];
    const { customerId } = this.filter;
    for (const kind of kinds) {
      const wanted = customerId === undefined ? undefined : new CustomerLines(kind, customerId);
      for (const path of await this.segments.of(kind, day)) {
        const span = await this.segments.span(path);
        if (span && (span.first > this.latest + MAX_DISORDER_MS || span.last < this.earliest - MAX_DISORDER_MS)) continue;
        readers.push({ path, span, wanted, end: Infinity, disorderMs: MAX_DISORDER_MS, frontier: Math.min(span?.last ?? Infinity, this.latest) + MAX_DISORDER_MS });
      }
    }
    return readers;
  }

  private async open(reader: BackwardReader): Promise<SegmentReader | undefined> {
    if (reader.segment) return reader.segment;
    const segment = await this.segments.open(reader.path, this.memory);
    if (!segment) return undefined;
    reader.segment = segment;
    this.opened += 1;
    const { span } = reader;
    reader.disorderMs = await this.segments.disorderOf(segment, span);
    reader.end = span && this.latest < span.last ? (await segment.seek(this.latest + reader.disorderMs + 1, span)).high : segment.length;
    return segment;
  }

  private async addDay(readers: readonly BackwardReader[], day: string): Promise<UploadPosition | undefined> {
    // Asks for one candidate more than the page can take, which shows whether more uploads follow the page.
    const wanted = this.limit - this.uploads.length + 1;
    const { candidates, readTo } = await this.readBack(readers, wanted).finally(() => this.buffer.close());
    for (const candidate of candidates) {
      const { length, uploadId, receivedAt } = candidate;
      const line = candidate.upload ? undefined : await candidate.segment.lineFrom(candidate.begin);
      const bytes = this.lineBytes + length;
      if (bytes > LONG_LINE_BYTES) await this.memory?.take(length);
      const upload = candidate.upload ?? (line && (await decodeIndexLine(line.bytes)));
      if (!upload) continue;
      const previous = this.uploads.at(-1);
      if (previous && (this.uploads.length === this.limit || bytes > MAX_PAGE_BYTES)) return { uploadId: previous.uploadId, receivedAt: previous.receivedAt };
      this.lineBytes = bytes;
      this.uploads.push(upload === candidate.upload ? upload : { ...upload, uploadId, receivedAt });
    }
    const last = candidates.at(-1);
    // Some candidates weren't valid, so more uploads of the day may follow: the next page begins behind the last one.
    if (last && candidates.length === wanted) return { uploadId: last.uploadId, receivedAt: last.receivedAt };
    if (readTo !== undefined) return positionBehind(readTo + 1);
    return this.bytesRead < MAX_READ_BYTES && this.opened - this.uploads.length < MAX_OPENED_IN_VAIN ? undefined : positionBehind(Date.parse(day));
  }

  /**
   * @returns the newest lines of the day that the filter selects; and a time `readTo`, in milliseconds since 1970,
   *   after which all selected lines were read. `readTo` is undefined if the filter selects no unread line of the day.
   */
  private async readBack(readers: readonly BackwardReader[], wanted: number): Promise<{ candidates: Candidate[]; readTo: number | undefined }> {
    const selection = new Selection(wanted);
    for (;;) {
      const [newest] = readers.filter(({ end }) => end > 0).sort((one, other) => other.frontier - one.frontier);
      if (!newest || newest.frontier < this.earliest) return { candidates: selection.newest(), readTo: undefined };
      const readTo = newest.frontier;
      const isEnough = this.bytesRead >= MAX_READ_BYTES && readTo + 1 < this.latest;
      const missing = wanted - selection.countAfter(readTo);
      if (isEnough || missing <= 0) return { candidates: selection.newest(readTo), readTo };
      await this.readChunk(newest, selection, this.bytesFor(missing));
    }
  }

  private bytesFor(missing: number): number {
    const usualBytes = this.seen.lines === 0 ? USUAL_LINE_BYTES : this.seen.bytes / this.seen.lines;
    // The reads grow, so that there are few of them if the filter leaves out most lines, as that of one customer does.
    const grown = this.filter.customerId === undefined ? this.bytesRead / 4 : this.bytesRead;
    return Math.round(Math.min(Math.max(missing * usualBytes, grown, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES));
  }

  private async readChunk(reader: BackwardReader, selection: Selection, chunkBytes: number): Promise<void> {
    const segment = await this.open(reader);
    if (!segment || reader.end === 0) {
      reader.end = 0;
      return;
    }
    const { wanted, disorderMs } = reader;
    const { begin, lines } = await segment.linesBefore(reader.end, chunkBytes, this.buffer, wanted);
    this.bytesRead += reader.end - begin;
    reader.end = begin;
    this.seen.lines += lines.length;
    // Of the lines of other customers, the first of the chunk is enough for the frontier: all lines before it are
    // older, or at most `disorderMs` newer.
    for (const { begin: at, bytes } of lines) {
      const { length } = bytes;
      this.seen.bytes += length;
      // Awaits only the reading of a long line, which is a promise. Other awaits would cost as much as reading a line.
      const reading = readLine(bytes);
      const read = reading instanceof Promise ? await reading : reading;
      if (!read) continue;
      const time = read.receivedAt.getTime();
      reader.frontier = Math.min(reader.frontier, time + disorderMs);
      if (time < this.earliest || time > this.latest) continue;
      const isWanted = wanted?.has(bytes) ?? true;
      if (!(isWanted instanceof Promise ? await isWanted : isWanted)) continue;
      if (this.after && comparePositions(read, this.after) >= 0) continue;
      selection.add({ ...read, segment, begin: at, length });
    }
  }
}

/** Reads a line. Decodes a short one at once, which costs little more than reading its upload's id and time alone. */
function readLine(line: Buffer): ReadLine | undefined | Promise<ReadLine | undefined> {
  if (line.length > SHORT_LINE_BYTES) {
    const head = headOf(line);
    return head instanceof Promise ? head.then(undecoded) : undecoded(head);
  }
  const upload = decodeShortLine(line.toString());
  return upload && hasValidTime(upload) ? { uploadId: upload.uploadId, receivedAt: upload.receivedAt, upload } : undefined;
}

const undecoded = (head: LineHead | undefined): ReadLine | undefined =>
  head && { uploadId: head.uploadId, receivedAt: new Date(head.receivedAt), upload: undefined };

class Selection {
  private candidates: Candidate[] = [];

  constructor(private readonly wanted: number) {}

  add(candidate: Candidate): void {
    this.candidates.push(candidate);
    if (this.candidates.length > this.wanted + SPARE_CANDIDATES) this.candidates = this.newest();
  }

  countAfter(time: number): number {
    return this.candidates.reduce((count, { receivedAt }) => count + Number(receivedAt.getTime() > time), 0);
  }

  newest(time = -Infinity): Candidate[] {
    const sorted = this.candidates.sort((one, other) => comparePositions(other, one)).slice(0, this.wanted);
    return sorted.filter(({ receivedAt }) => receivedAt.getTime() > time);
  }
}
