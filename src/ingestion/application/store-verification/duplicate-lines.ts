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
  private readonly replacing = new Set<string>();

  constructor(
    private readonly view: StoreView,
    private readonly index: IndexReader,
    places: number,
  ) {
    this.uploads = new DigestSet(places);
  }

  clear(): void {
    this.uploads.clear();
    this.suspects = new Suspects();
  }

  /**
   * Adds an upload. Returns false if the upload was added before.
   *
   * @throws DigestSetFullError if there is no place left.
   */
  add(key: Buffer): boolean {
    return this.uploads.add(key);
  }

  /**
   * Examines an index line whose upload was added before. Resolves to a finding if the upload certainly has two lines.
   * In a store that moves lines to other segments, one line may have been read at two places, so `findings` decides.
   */
  async suspect(key: Buffer, line: SegmentLine): Promise<Finding | undefined> {
    if (!(await this.view.stays(line))) return undefined;
    if (!this.view.movesLines) return duplicate(line);
    this.suspects.add(key);
    return undefined;
  }

  /**
   * Reads the index again to find out which suspected uploads really have two lines. Yields a finding for each second
   * line, and one (`under-way`) for each segment with lines that are being moved. Also yields the findings of
   * `IndexReader.lines`.
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

/** By upload: the place of the line that `findings` read first, or the place to which that line has moved. */
class Suspects {
  private readonly places = new Map<string, LinePlace | undefined>();

  get size(): number {
    return this.places.size;
  }

  add(key: Buffer): void {
    this.places.set(nameOf(key), undefined);
  }

  firstOf(key: Buffer, line: SegmentLine): LinePlace | undefined {
    const name = nameOf(key);
    const place = this.places.get(name);
    if (!place && this.places.has(name)) this.moveTo(key, line);
    return place;
  }

  moveTo(key: Buffer, line: SegmentLine): void {
    this.places.set(nameOf(key), placeOf(line));
  }
}
