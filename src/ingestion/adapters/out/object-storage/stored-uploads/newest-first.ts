import { MIB } from '../../../../../common/sizes.js';
import { MAX_PAGE_BYTES, type UploadFilter, type UploadPage, type UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { comparePositions, isSelected, positionBehind } from '../../../../domain/upload-filter.js';
import type { Upload } from '../../../../domain/upload.js';
import { NAME_TOLERANCE_MS } from '../segment-names.js';
import type { PageMemory } from './page-memory.js';

const READS_AT_ONCE = 32;
const MAX_READS_AT_ONCE = 256;
/** A page ends early after reading MAX_BYTES or MAX_READS sources, unless it would then be the same page again. */
const MAX_BYTES_AT_ONCE = 8 * MIB;
const MAX_BYTES = 64 * MIB;
const MAX_READS = 2_000;

export type OnLine = (upload: Upload, length: number) => void;

/** A part of the index that wasn't read yet: a day, a segment (object with index lines), or a part of one. */
export interface Source {
  /** No upload in this source was received later than this, in milliseconds since 1970. */
  readonly latest: number;
  /** About how many bytes `read` reads; undefined if the source has to list segments first. */
  readonly size: number | undefined;
  /** How many bytes `read` holds in memory. Default: `size`. */
  readonly held?: number;
  /**
   * Reads the source, or only the part with its newest lines; no line if the source has to list segments first.
   *
   * @returns the sources for the part that wasn't read.
   */
  read(onLine: OnLine): Promise<readonly Source[]>;
}

export interface PageQuery {
  readonly filter: UploadFilter;
  readonly limit: number;
  readonly after: UploadPosition | undefined;
}

/**
 * Merges sources into a page of a list of uploads, newest first. The page may end early (see MAX_BYTES and MAX_READS).
 *
 * Holds in memory the lines of a page, at most MAX_PAGE_BYTES or a single longer line, and the segments being read.
 *
 * @param memory where the memory for these lines and segments is taken.
 */
export async function readPage(sources: readonly Source[], { filter, limit, after }: PageQuery, memory: PageMemory): Promise<UploadPage> {
  const page = new Page(filter, limit, after);
  let rest = sources.filter((source) => page.mayHave(source));
  const read: ReadCounts = { segments: 0, listings: 0 };
  let bytes = 0;
  for (;;) {
    rest.sort((one, other) => other.latest - one.latest);
    const [newest] = rest;
    if (!newest) return page.end(false);
    // The newest unread source may have an upload that was received at `latest`, so only later uploads are settled.
    const bound = newest.latest + 1;
    if (page.isFullAbove(bound)) return page.end(true);
    if ((read.segments + read.listings >= MAX_READS || bytes >= MAX_BYTES) && page.isProgress(bound)) return page.endAbove(bound);
    const now = nextReads(rest, page, read);
    const begun = new Set(now);
    rest = rest.filter((source) => !begun.has(source));
    await memory.hold(page.bytes + now.reduce((sum, { size = 0, held = size }) => sum + held, 0));
    const left = await Promise.all(now.map((source) => source.read((upload, size) => { page.add(upload, size); })));
    await memory.hold(page.bytes);
    rest.push(...left.flat().filter((source) => page.mayHave(source)));
    for (const source of now) read[isSegment(source) ? 'segments' : 'listings'] += 1;
    bytes += now.reduce((sum, { size = 0 }) => sum + size, 0);
  }
}

/**
 * The sources to read next: as many as the page probably needs, if each has about as many matching uploads as the segments
 * read so far. Until segments were read, at most two days are listed. Later, the days of years aren't listed one by one
 * for a customer with few uploads, or without any. In a list of all customers, one busy day may follow a quiet one, so at
 * most four times as many days are listed as before.
 */
function nextReads(sources: readonly Source[], page: Page, { segments, listings: listed }: ReadCounts): Source[] {
  const [newest] = sources;
  const expected = segments > 0 ? Math.ceil((page.room * segments) / Math.max(1, page.seen)) : page.room;
  const mostListings = segments === 0 ? 2 : page.isOfCustomer ? expected : Math.max(2, Math.min(expected, 4 * listed));
  const needed = page.expectedEnd(sources, expected);
  let bytes = 0;
  let listings = 0;
  const end = sources.findIndex(({ size, latest }, index) => {
    bytes += size ?? 0;
    if (size === undefined) listings += 1;
    const isEarlyListing = size === undefined && latest !== newest?.latest && (index >= expected || listings > mostListings);
    const isEnough = index >= READS_AT_ONCE && (latest < needed || index === MAX_READS_AT_ONCE);
    return index > 0 && (isEnough || bytes > MAX_BYTES_AT_ONCE || isEarlyListing);
  });
  if (end < 0) return [...sources];
  const now = sources.slice(0, end);
  // What a later wave needs is listed while this one reads.
  const ahead = now.every(isSegment) ? sources.filter((source) => !isSegment(source) && source.latest >= needed) : [];
  return [...now, ...ahead.slice(0, 2)];
}

interface ReadCounts {
  segments: number;
  listings: number;
}

const isSegment = ({ size }: Source): boolean => size !== undefined;

interface Entry {
  readonly upload: Upload;
  readonly bytes: number;
}

class Page {
  /** How many uploads were read, of the customer if the list is of one. Some are too new for the page. */
  seen = 0;
  private entries: Entry[] = [];
  private isCut = false;

  constructor(
    private readonly filter: UploadFilter,
    private readonly limit: number,
    private readonly after: UploadPosition | undefined,
  ) {}

  /** How many uploads the page can still take. */
  get room(): number {
    return this.isFull ? 0 : this.limit - this.entries.length;
  }

  get isOfCustomer(): boolean {
    return this.filter.customerId !== undefined;
  }

  get bytes(): number {
    return this.entries.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** @param expected how many of the sources the page probably needs. */
  expectedEnd(sources: readonly Source[], expected: number): number {
    const last = this.isFull ? this.entries.at(-1)?.upload.receivedAt.getTime() : undefined;
    return last ?? (sources[Math.min(expected, sources.length) - 1]?.latest ?? 0) - NAME_TOLERANCE_MS;
  }

  mayHave({ latest }: Source): boolean {
    return latest >= (this.filter.from?.getTime() ?? -Infinity);
  }

  add(upload: Upload, bytes: number): void {
    if (!this.isOfCustomer || upload.customerId === this.filter.customerId) this.seen += 1;
    if (!isSelected(upload, this.filter) || (this.after && comparePositions(upload, this.after) >= 0)) return;
    const last = this.entries.at(-1);
    if (this.isCut && last && comparePositions(upload, last.upload) < 0) return;
    // While compaction moves a line, the line is in two segments, so its upload may be read twice.
    if (this.entries.some((entry) => entry.upload.uploadId === upload.uploadId)) return;
    const at = this.entries.findLastIndex((entry) => comparePositions(entry.upload, upload) > 0);
    this.entries.splice(at + 1, 0, { upload, bytes });
    this.cut();
  }

  isFullAbove(bound: number): boolean {
    const last = this.entries.at(-1);
    return this.isFull && last !== undefined && last.upload.receivedAt.getTime() >= bound;
  }

  /** Whether a page that ends at `bound` ends behind its beginning. Otherwise a client would get it again and again. */
  isProgress(bound: number): boolean {
    return !this.after || comparePositions(positionBehind(bound), this.after) < 0;
  }

  end(hasMore: boolean): UploadPage {
    const uploads = this.entries.map(({ upload }) => upload);
    const last = uploads.at(-1);
    return { uploads, next: last && (hasMore || this.isCut) ? { receivedAt: last.receivedAt, uploadId: last.uploadId } : null };
  }

  endAbove(bound: number): UploadPage {
    const uploads = this.entries.map(({ upload }) => upload).filter(({ receivedAt }) => receivedAt.getTime() >= bound);
    return { uploads, next: positionBehind(bound) };
  }

  private get isFull(): boolean {
    return this.isCut || this.entries.length === this.limit;
  }

  private cut(): void {
    let bytes = 0;
    const end = this.entries.findIndex((entry, index) => index === this.limit || ((bytes += entry.bytes) > MAX_PAGE_BYTES && index > 0));
    if (end < 0) return;
    this.entries.length = end;
    this.isCut = true;
  }
}
