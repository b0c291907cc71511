import { uploadIdOfFile } from '../../domain/layout-names.js';
import { DigestSet, digestOf, partOf } from './digest-set.js';
import { DuplicateKeys } from './duplicate-keys.js';
import { DuplicateLines } from './duplicate-lines.js';
import type { Finding } from './finding.js';
import type { IndexReader } from './index-reader.js';
import { keyedLine } from './keyed-line.js';
import { members, type SegmentLine, uploadKey } from './line-splitter.js';
import type { StoreView } from './store-view.js';

/** The most places of a `DigestSet`. Together, the three sets that matching needs take at most 26 MiB. */
const MAX_PLACES = 2 ** 19;
/** The fewest places of a `DigestSet`, so that uploads that arrive during the check have room, too. */
const MIN_PLACES = 2 ** 16;

interface MatchingSets {
  readonly files: DigestSet;
  readonly lines: DuplicateLines;
  readonly keys: DuplicateKeys;
}

/**
 * Compares all lines and files with each other: every file must have a line, no upload two lines, and no two uploads of
 * one customer and kind the same idempotency key within 24 hours.
 */
export class Matching {
  constructor(
    private readonly view: StoreView,
    private readonly index: IndexReader,
    private readonly uploadsPerPass = MAX_PLACES / 2,
  ) {}

  /**
   * @param count about how many uploads or files the store has, whichever number is larger.
   * @throws DigestSetFullError if the store grows too much meanwhile.
   */
  async *findings(count: number): AsyncGenerator<Finding> {
    const parts = Math.max(1, Math.ceil(count / this.uploadsPerPass));
    const places = placesFor(count / parts);
    const files = new DigestSet(places);
    const lines = new DuplicateLines(this.view, this.index, places);
    const keys = new DuplicateKeys(this.view, this.index, places);
    this.index.begin('matching', parts);
    for (let part = 0; part < parts; part++) {
      files.clear();
      lines.clear();
      keys.clear();
      const isOfPart = (key: Buffer): boolean => partOf(key, parts) === part;
      yield* this.matchPart(isOfPart, { files, lines, keys });
    }
  }

  /**
   * Lists the files before it reads the index. In the other order, a file stored in between would be listed, but its
   * line missed.
   */
  private async *matchPart(isOfPart: (key: Buffer) => boolean, { files, lines, keys }: MatchingSets): AsyncGenerator<Finding> {
    for await (const { key } of this.files(isOfPart)) files.add(key);
    for await (const line of this.index.lines()) {
      if ('state' in line) {
        yield line;
        continue;
      }
      deleteFileOf(line, files);
      const keyed = keyedLine(line);
      if (keyed && isOfPart(keyed.key)) keys.add(keyed);
      const key = uploadKey(line);
      if (!key || !isOfPart(key) || lines.add(key)) continue;
      const finding = await lines.suspect(key, line);
      if (finding) yield finding;
    }
    yield* lines.findings();
    yield* keys.findings();
    yield* this.filesWithoutLine(files);
  }

  /**
   * Examines the files whose lines weren't found. Any that it doesn't report was removed meanwhile, or its line was
   * written or moved.
   */
  private async *filesWithoutLine(files: DigestSet): AsyncGenerator<Finding> {
    if (files.size === 0) return;
    // Markers are read after the files were listed: a file without a marker then has its line, is gone, or has no line.
    const isPublished = await this.view.publications();
    for await (const { key, path, uploadId } of this.files((key) => files.has(key))) {
      if (!(await isPublished(uploadId, path))) continue;
      files.delete(key);
      yield { state: 'under-way', kind: 'line-absent', path, uploadId, line: null, detail: `its line is being written, or left for ${this.view.recoveredBy} to remove` };
    }
    if (files.size === 0) return;
    for await (const line of this.index.lines(false)) {
      if ('state' in line) yield line;
      else deleteFileOf(line, files);
    }
    if (files.size === 0) return;
    for await (const { path, uploadId } of this.files((key) => files.has(key))) {
      // If a part of the index couldn't be read, the file's line may be in that part.
      const state = this.index.isWhole ? 'defect' : 'unknown';
      yield { state, kind: 'line-absent', path, uploadId, line: null, detail: 'no line names the file' };
    }
  }

  private async *files(isWanted: (key: Buffer) => boolean): AsyncGenerator<{ key: Buffer; path: string; uploadId: string }> {
    for await (const { type, path, name } of this.view.content()) {
      if (type !== 'file') continue;
      const key = digestOf(path);
      if (isWanted(key)) yield { key, path, uploadId: uploadIdOfFile(name) };
    }
  }
}

function deleteFileOf(line: SegmentLine, files: DigestSet): void {
  const { content_path: path } = members(line);
  if (typeof path === 'string') files.delete(digestOf(path));
}

function placesFor(digests: number): number {
  let places = MIN_PLACES;
  while (places < 2 * digests && places < MAX_PLACES) places *= 2;
  return places;
}
