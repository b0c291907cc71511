import { DigestSet, nameOf } from './digest-set.js';
import type { Finding } from './finding.js';
import type { IndexReader } from './index-reader.js';
import { lineFinding, type LinePlace, placeOf } from './line-finding.js';
import { type SegmentLine, uploadKey } from './line-splitter.js';
import type { StoreView } from './store-view.js';

/** Finds the uploads that have two lines in the index. */
export class DuplicateLines {
  private readonly uploads: DigestSet;
  private suspects = new Suspects();
  /** The segments (files of index lines) that were reported as part of a compaction, so that each is reported once. */
  private readonly replacing = new Set<string>();

  /**
   * @param places the size of the hash table of uploads (see `DigestSet`), in places for one upload each: a power of
   * two. At most nine tenths of the places can be taken.
   */
  constructor(
    private readonly view: StoreView,
    private readonly index: IndexReader,
    places: number,
  ) {
    this.uploads = new DigestSet(places);
  }

  /** Forgets all uploads that were added. Called before those of the next part of the index are added. */
  clear(): void {
    this.uploads.clear();
    this.suspects = new Suspects();
  }

  /**
   * Adds the upload of an index line. Returns false if the upload was added before.
   *
   * @param key the digest of the upload's id.
   * @throws DigestSetFullError if there is no place left for the upload.
   */
  add(key: Buffer): boolean {
    return this.uploads.add(key);
  }

  /**
   * Examines an index line whose upload was added before. Resolves to a finding if the upload certainly has two lines;
   * to undefined if this line is no longer in the index. In a store that moves lines to other segments, one line may
   * have been read at two places. Then resolves to undefined, and leaves the decision to `findings`.
   */
  async suspect(key: Buffer, line: SegmentLine): Promise<Finding | undefined> {
    if (!(await this.view.stays(line))) return undefined;
    if (!this.view.movesLines) return duplicate(line);
    this.suspects.add(key);
    return undefined;
  }

  /**
   * Reads the index again to find out which suspected uploads really have two lines. Any other suspected upload has one
   * line, which was read twice because it was moved to another segment, or is being moved. Yields a finding for each
   * second line. For lines that are being moved, yields one finding (`under-way`) for each segment in which such a line
   * was read a second time. Also yields the findings about parts of the index that can't be read (`IndexReader.lines`).
   * Reads nothing if no upload is suspected.
   */
  async *findings(): AsyncGenerator<Finding> {
    const { suspects } = this;
    if (suspects.size === 0) return;
    for await (const line of this.index.lines(false)) {
      if ('state' in line) {
        yield line;
        continue;
      }
      const key = uploadKey(line);
      const first = key && suspects.firstOf(key, line);
      if (!key || !first || (first.segment === line.segment && first.offset === line.offset)) continue;
      const relation = first.segment === line.segment ? 'both' : await this.view.relation(first.segment, line.segment);
      if (relation === 'both') yield duplicate(line);
      else if (relation === 'replaces') yield* this.replacement(line.segment);
      else if (relation === 'second-only') suspects.moveTo(key, line);
    }
  }

  private *replacement(segment: string): Generator<Finding> {
    if (this.replacing.has(segment)) return;
    this.replacing.add(segment);
    const detail = 'it has the lines of segments that are being compacted, or is one of them';
    yield { state: 'under-way', kind: 'line-duplicate', path: segment, uploadId: null, line: null, detail };
  }
}

const duplicate = (line: SegmentLine): Finding =>
  lineFinding(line, { state: 'defect', kind: 'line-duplicate', detail: 'another line has the same upload_id' });

/**
 * The uploads that may have two lines: for each, lines were read at two places. Records for each upload the place of
 * the line that `findings` read first, or the place to which that line has moved.
 */
class Suspects {
  private readonly places = new Map<string, LinePlace | undefined>();

  get size(): number {
    return this.places.size;
  }

  add(key: Buffer): void {
    this.places.set(nameOf(key), undefined);
  }

  /**
   * Returns the place that is recorded for the upload of `line`. If none is recorded yet, because `line` is the first
   * line of this upload that was read, records the place of `line`, and returns undefined. If the upload isn't
   * suspected of having two lines, records nothing, and returns undefined.
   */
  firstOf(key: Buffer, line: SegmentLine): LinePlace | undefined {
    const name = nameOf(key);
    const place = this.places.get(name);
    if (!place && this.places.has(name)) this.moveTo(key, line);
    return place;
  }

  /** Records the place of `line` as that of its upload, in place of the recorded one. */
  moveTo(key: Buffer, line: SegmentLine): void {
    this.places.set(nameOf(key), placeOf(line));
  }
}
