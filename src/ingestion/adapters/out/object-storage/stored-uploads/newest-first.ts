import { MAX_PAGE_BYTES, type UploadFilter, type UploadPage, type UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { comparePositions, isSelected, positionBehind } from '../../../../domain/upload-filter.js';
import type { Upload } from '../../../../domain/upload.js';
import { NAME_TOLERANCE_MS } from '../segment-names.js';
import type { PageMemory } from './page-memory.js';

/** How many sources are read at once, and the maximum (MAX_READS_AT_ONCE) if the page probably needs more. */
const READS_AT_ONCE = 32;
const MAX_READS_AT_ONCE = 256;
/**
 * MAX_BYTES_AT_ONCE: at most this many bytes are read at once, unless a single read is longer. MAX_BYTES and MAX_READS:
 * once this many bytes or sources were read for a page, the page ends early. It doesn't end early if the next page
 * would begin where this one began, because a client would then get the same page again and again.
 */
const MAX_BYTES_AT_ONCE = 8 * 1024 * 1024;
const MAX_BYTES = 64 * 1024 * 1024;
const MAX_READS = 2_000;

/** Called for each index line that was read, with the line's length in bytes. */
export type OnLine = (upload: Upload, length: number) => void;

/** A part of the index that wasn't read yet: a day, a segment (object with index lines), or a part of one. */
export interface Source {
  /** No upload in this source was received later than this, in milliseconds since 1970. */
  readonly latest: number;
  /**
   * About how many bytes `read` reads. Undefined if the source has to list segments first; such a source is usually
   * read only when it is needed.
   */
  readonly size: number | undefined;
  /**
   * Reads the whole source, only the part with its newest lines, or no line, if the source has to list segments first.
   *
   * @returns the sources for the part that wasn't read.
   */
  read(onLine: OnLine): Promise<readonly Source[]>;
}

/** The parameters of `StoredUploads.list`. */
export interface PageQuery {
  readonly filter: UploadFilter;
  readonly limit: number;
  readonly after: UploadPosition | undefined;
}

/**
 * Merges sources into a page of a list of uploads, newest first. Always reads the sources that may contain the newest
 * unread lines. Ends when the page is full and no unread source can contain a line newer than the page's last one, when
 * no source is left, or early (see MAX_BYTES and MAX_READS).
 *
 * Holds in memory the lines of a page, at most MAX_PAGE_BYTES or a single longer line, and the segments being read.
 *
 * @param memory where memory is taken for what is read at once, before it is read, and for the lines of the page.
 */
export async function readPage(sources: readonly Source[], { filter, limit, after }: PageQuery, memory: PageMemory): Promise<UploadPage> {
  const page = new Page(filter, limit, after);
  let rest = sources.filter((source) => page.mayHave(source));
  let reads = 0;
  let inVain = 0;
  let bytes = 0;
  for (;;) {
    rest.sort((one, other) => other.latest - one.latest);
    const [newest] = rest;
    if (!newest) return page.end(false);
    // All uploads that were received at `bound` or later were read. Without the added millisecond this would be wrong:
    // the newest unread source may have an upload that was received at `latest`.
    const bound = newest.latest + 1;
    if (page.isFullAbove(bound)) return page.end(true);
    if ((reads >= MAX_READS || bytes >= MAX_BYTES) && page.isProgress(bound)) return page.endAbove(bound);
    const { room } = page;
    const now = nextReads(rest, page, inVain);
    rest = rest.slice(now.length);
    const reading = now.reduce((sum, { size = 0 }) => sum + size, 0);
    await memory.hold(page.bytes + reading);
    const left = await Promise.all(now.map((source) => source.read((upload, size) => { page.add(upload, size); })));
    await memory.hold(page.bytes);
    rest.push(...left.flat().filter((source) => page.mayHave(source)));
    reads += now.length;
    inVain = page.room === room ? inVain + now.length : 0;
    bytes += reading;
  }
}

/**
 * The sources to read at once: newest first, as many as the page probably needs. A source that must list segments first
 * is included if it is as new as the first source. Otherwise, it is included only if the sources before it probably
 * can't fill the page, and few of them must list segments too. More such sources are included the more sources were
 * read since the page last grew (`inVain`), so that the days of years aren't listed one by one for a customer without
 * uploads.
 */
function nextReads(sources: readonly Source[], page: Page, inVain: number): Source[] {
  const [newest] = sources;
  const needed = page.expectedEnd(sources);
  let bytes = 0;
  let listings = 0;
  const end = sources.findIndex(({ size, latest }, index) => {
    bytes += size ?? 0;
    if (size === undefined) listings += 1;
    const isEarlyListing = size === undefined && latest !== newest?.latest && (listings > Math.max(2, inVain) || index >= Math.max(page.room, inVain));
    const isEnough = index >= READS_AT_ONCE && (latest < needed || index === MAX_READS_AT_ONCE);
    return index > 0 && (isEnough || bytes > MAX_BYTES_AT_ONCE || isEarlyListing);
  });
  return end < 0 ? [...sources] : sources.slice(0, end);
}

interface Entry {
  readonly upload: Upload;
  readonly bytes: number;
}

/** The newest uploads of the list that were read so far, at most as many as a page may have. */
class Page {
  private entries: Entry[] = [];
  private isCut = false;

  constructor(
    private readonly filter: UploadFilter,
    private readonly limit: number,
    private readonly after: UploadPosition | undefined,
  ) {}

  /** How many uploads the page still has room for. */
  get room(): number {
    return this.limit - this.entries.length;
  }

  /** The bytes of the lines of the page. */
  get bytes(): number {
    return this.entries.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * Estimates when the last (oldest) upload of the finished page was received, in milliseconds since 1970. Assumes that
   * each unread source (`sources`, newest first) has one upload for the page.
   */
  expectedEnd(sources: readonly Source[]): number {
    const last = this.isFull ? this.entries.at(-1)?.upload.receivedAt.getTime() : undefined;
    return last ?? (sources[Math.min(this.room, sources.length) - 1]?.latest ?? 0) - NAME_TOLERANCE_MS;
  }

  /** Whether a source may have uploads that were received late enough for the list's filter. */
  mayHave({ latest }: Source): boolean {
    return latest >= (this.filter.from?.getTime() ?? -Infinity);
  }

  add(upload: Upload, bytes: number): void {
    if (!isSelected(upload, this.filter) || (this.after && comparePositions(upload, this.after) >= 0)) return;
    const last = this.entries.at(-1);
    if (this.isCut && last && comparePositions(upload, last.upload) < 0) return;
    // While compaction moves a line, the line is in two segments, so an upload may be read twice.
    if (this.entries.some((entry) => entry.upload.uploadId === upload.uploadId)) return;
    const at = this.entries.findLastIndex((entry) => comparePositions(entry.upload, upload) > 0);
    this.entries.splice(at + 1, 0, { upload, bytes });
    this.cut();
  }

  /**
   * Whether the page is full of uploads that were received at `bound` or later, so that it has no room for earlier
   * ones.
   */
  isFullAbove(bound: number): boolean {
    const last = this.entries.at(-1);
    return this.isFull && last !== undefined && last.upload.receivedAt.getTime() >= bound;
  }

  /**
   * Whether a page that ends at `bound` ends later in the list than it begins. If it doesn't, a client that reads page
   * by page would get the same page again and again.
   */
  isProgress(bound: number): boolean {
    return !this.after || comparePositions(positionBehind(bound), this.after) < 0;
  }

  /** The finished page. `hasMore` says whether there may be older uploads that weren't read. */
  end(hasMore: boolean): UploadPage {
    const uploads = this.entries.map(({ upload }) => upload);
    const last = uploads.at(-1);
    return { uploads, next: last && (hasMore || this.isCut) ? { receivedAt: last.receivedAt, uploadId: last.uploadId } : null };
  }

  /**
   * The page with only the uploads that were received at `bound` or later, all of which were read. The next page begins
   * with the uploads that were received before `bound`.
   */
  endAbove(bound: number): UploadPage {
    const uploads = this.entries.map(({ upload }) => upload).filter(({ receivedAt }) => receivedAt.getTime() >= bound);
    return { uploads, next: positionBehind(bound) };
  }

  private get isFull(): boolean {
    return this.isCut || this.entries.length === this.limit;
  }

  /** Drops the oldest uploads, for which the page has no room. */
  private cut(): void {
    let bytes = 0;
    const end = this.entries.findIndex((entry, index) => index === this.limit || ((bytes += entry.bytes) > MAX_PAGE_BYTES && index > 0));
    if (end < 0) return;
    this.entries.length = end;
    this.isCut = true;
  }
}
