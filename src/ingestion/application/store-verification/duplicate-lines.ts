import { DigestSet, nameOf } from './digest-set.js';
import type { Finding } from './finding.js';
import type { IndexReader } from './index-reader.js';
import { lineFinding, type LinePlace, placeOf } from './line-finding.js';
import { type SegmentLine, uploadKey } from './segment-lines.js';
import type { StoreView } from './store-view.js';

/** Finds the uploads that have two lines in the index. */
export class DuplicateLines {
  private readonly uploads: DigestSet;
  private suspects = new Suspects();
  /** The segments that were reported as part of a compaction in progress, so that each is reported only once. */
  private readonly replacing = new Set<string>();

  /** @param places the number of places in the set of uploads (see `DigestSet`): a power of two. */
  constructor(
    private readonly view: StoreView,
    private readonly index: IndexReader,
    places: number,
  ) {
    this.uploads = new DigestSet(places);
  }

  /** Removes all uploads. Called before the uploads of another part of the index are added. */
  clear(): void {
    this.uploads.clear();
    this.suspects = new Suspects();
  }

  /**
   * Adds the upload of a line. Returns false if the upload was added before.
   *
   * @param key the digest of the upload's id.
   * @throws DigestSetFullError if there is no place left for the upload.
   */
  add(key: Buffer): boolean {
    return this.uploads.add(key);
  }

  /**
   * Judges a line whose upload was added before, so that the upload may have two lines. Resolves to a finding if it
   * certainly has two. If the line may have been moved to another segment between the two reads, `findings` decides
   * later.
   */
  async suspect(key: Buffer, line: SegmentLine): Promise<Finding | undefined> {
    if (!(await this.view.stays(line.segment, line.end))) return undefined;
    if (!this.view.movesLines) return duplicate(line);
    this.suspects.add(key);
    return undefined;
  }

  /**
   * Finds, among the suspects, the uploads that really have two lines. Any other suspect has one line, which was read
   * twice because it is being moved or was moved to another segment. Reads the index again if there is a suspect.
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
 * The uploads of which a line was read twice, so that they may have two lines. When `findings` reads the index again,
 * it notes here the place where it first read a line of each.
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
   * For an upload among the suspects: the place of its line that was read before `line`. Undefined if `line` is the
   * first one of the upload, whose place is then noted, or if the upload isn't a suspect.
   */
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
