import { opendir, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ContentCheck } from './content-check.js';
import type { Finding, FindingKind } from './finding.js';
import { KeySet, keyOf, partOf } from './key-set.js';
import { type Entry, uploadIdOfFile, walkContent, walkSegments, walkStaging } from './layout-walk.js';
import { checkLine } from './line-rules.js';
import { type SegmentLine, segmentLines } from './segment-lines.js';
import { UnderWay } from './under-way.js';

export type { Finding, FindingKind } from './finding.js';

/** Two sets of so many places are all the memory that matching takes, whatever is stored: 17 MiB. */
const PLACES = 2 ** 19;
const FILES_AT_ONCE = 4;

export interface VerifyStoreOptions {
  /** So many uploads are matched with their files by each pass over the index, at most. 262,144 by default. */
  readonly uploadsPerPass?: number;
}

/** What was looked at until now. */
export interface VerificationTotals {
  /** Whole lines. */
  uploads: number;
  /** Files of the layout. */
  files: number;
  /** Of the files that were compared with their lines. */
  bytes: number;
  defects: number;
  underWay: number;
  /** What couldn't be checked. */
  unknown: number;
}

/** Where the verification is. */
export interface VerificationProgress {
  phase: 'listing' | 'lines' | 'matching';
  /** Bytes of the index that this phase has read, and has to read. */
  done: number;
  total: number;
}

/** A directory that can't be verified at all. */
export class NoStoreError extends Error {
  constructor(directory: string, reason: string) {
    super(`${directory}: ${reason}`);
    this.name = new.target.name;
  }
}

/**
 * Compares every line of a store's index with its file, and every file with the index (docs/durability.md). Takes no
 * lock and writes nothing, so that a service may be running on the directory: what it has under way is no defect.
 * The memory it needs doesn't depend on what is stored.
 *
 * @param directory the DATA_DIR.
 * @returns the findings, in no order, each as soon as it is certain. Iterating them rejects with NoStoreError when
 *   there is no store, and with what the file system throws; what single files or directories throw is a finding.
 */
export const verifyStore = (directory: string, options: VerifyStoreOptions = {}): StoreVerification =>
  new StoreVerification(directory, options);

/** One run of `verifyStore`; iterate it once. */
export class StoreVerification implements AsyncIterable<Finding> {
  readonly totals: VerificationTotals = { uploads: 0, files: 0, bytes: 0, defects: 0, underWay: 0, unknown: 0 };
  readonly progress: VerificationProgress = { phase: 'listing', done: 0, total: 0 };

  constructor(
    private readonly directory: string,
    private readonly options: VerifyStoreOptions,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Finding> {
    for await (const finding of new Run(await this.root(), this.options, this.totals, this.progress).findings()) {
      if (finding.state === 'defect') this.totals.defects += 1;
      else if (finding.state === 'under-way') this.totals.underWay += 1;
      else this.totals.unknown += 1;
      yield finding;
    }
  }

  /** The directory itself may be a symbolic link. */
  private async root(): Promise<string> {
    try {
      const root = await realpath(this.directory);
      const names = new Set<string>();
      for await (const { name } of await opendir(root)) if (name === 'uploads' || name === 'files') names.add(name);
      if (names.size > 0) return root;
    } catch (error) {
      throw new NoStoreError(this.directory, (error as Error).message);
    }
    throw new NoStoreError(this.directory, 'there is no uploads/ and no files/ in it');
  }
}

class Run {
  private readonly underWay: UnderWay;
  private indexBytes = 0;
  private indexIsWhole = true;

  constructor(
    private readonly root: string,
    private readonly options: VerifyStoreOptions,
    private readonly totals: VerificationTotals,
    private readonly progress: VerificationProgress,
  ) {
    this.underWay = new UnderWay(root);
  }

  async *findings(): AsyncGenerator<Finding> {
    yield* this.names();
    yield* this.lines();
    yield* this.matches();
  }

  /** Every name is one of the layout. */
  private async *names(): AsyncGenerator<Finding> {
    for await (const entry of walkContent(this.root)) {
      if (entry.type === 'file') this.totals.files += 1;
      else yield unexpected(entry);
    }
    for await (const entry of walkSegments(this.root)) {
      if (entry.type === 'unreadable') this.indexIsWhole = false;
      if (entry.type === 'file') this.indexBytes += await this.sizeOf(entry.path);
      else yield unexpected(entry);
    }
    for await (const entry of walkStaging(this.root)) {
      const { path, name } = entry;
      if (entry.type === 'unreadable') yield unexpected(entry);
      else yield { state: 'under-way', kind: 'staged', path, uploadId: name, line: null, detail: 'is arriving, or left for the next boot to remove' };
    }
  }

  /** Every line is whole, and so is its file. */
  private async *lines(): AsyncGenerator<Finding> {
    const checks = Array.from({ length: FILES_AT_ONCE }, () => new ContentCheck(this.root, (bytes) => (this.totals.bytes += bytes)));
    const running: { readonly check: ContentCheck; readonly finding: Promise<Finding | undefined> }[] = [];
    this.begin('lines', 1);
    for await (const line of this.index()) {
      if ('state' in line) {
        yield line;
        continue;
      }
      if (!line.isTorn) this.totals.uploads += 1;
      const free = checks.pop();
      const oldest = free ? undefined : running.shift();
      const finding = await oldest?.finding;
      if (finding) yield finding;
      const check = free ?? oldest?.check;
      if (check) running.push({ check, finding: this.checkLine(line, check) });
    }
    for (const { finding } of running) {
      const last = await finding;
      if (last) yield last;
    }
  }

  /** Never rejects. */
  private async checkLine(line: SegmentLine, content: ContentCheck): Promise<Finding | undefined> {
    try {
      return await this.lineFinding(line, content);
    } catch (error) {
      return lineFinding(line, { state: 'unknown', kind: 'unreadable', detail: messageOf(error) });
    }
  }

  private async lineFinding(line: SegmentLine, content: ContentCheck): Promise<Finding | undefined> {
    const { segment, isTorn, isMendable, end } = line;
    if (isTorn) {
      return isMendable
        ? lineFinding(line, { state: 'under-way', kind: 'line-torn', detail: 'the last line is being written, or left for the next boot to cut off' })
        : lineFinding(line, { state: 'defect', kind: 'line-torn', detail: 'the last line is torn' });
    }
    const checked = checkLine(line.value, dirname(segment));
    if ('problem' in checked) {
      if (!(await this.underWay.stays(segment, end))) return undefined;
      return isMendable && (await this.underWay.isOpen(segment))
        ? lineFinding(line, { state: 'under-way', kind: 'line-malformed', detail: 'the line was lost with the power, and the next boot cuts it off' })
        : lineFinding(line, { state: 'defect', kind: 'line-malformed', detail: `the line is malformed: ${checked.problem}` });
    }
    const { content_path: path, content_size: size, content_sha256: sha256, upload_id: uploadId } = checked.line;
    if (path === null || size === null || sha256 === null) return undefined;
    try {
      const problem = await content.check({ path, size, sha256 });
      // The bytes of a failed upload go after its line.
      if (!problem || !(await this.underWay.stays(segment, end))) return undefined;
      if (await this.underWay.isPublished(uploadId, path)) {
        return { state: 'under-way', path, uploadId, line: placeOf(line), ...problem, detail: `${problem.detail}; a journal has it, and a boot after a loss of the process restores it` };
      }
      return { state: 'defect', path, uploadId, line: placeOf(line), ...problem };
    } catch (error) {
      return { state: 'unknown', kind: 'unreadable', path, uploadId, line: placeOf(line), detail: messageOf(error) };
    }
  }

  /** Every file has a line, and no upload has two. */
  private async *matches(): AsyncGenerator<Finding> {
    const parts = Math.max(1, Math.ceil(Math.max(this.totals.uploads, this.totals.files) / (this.options.uploadsPerPass ?? PLACES / 2)));
    const files = new KeySet(PLACES);
    const uploads = new KeySet(PLACES);
    this.begin('matching', parts);
    for (let part = 0; part < parts; part++) {
      files.clear();
      uploads.clear();
      const isOfPart = (key: Buffer): boolean => partOf(key, parts) === part;
      yield* this.matchPart(isOfPart, files, uploads);
    }
  }

  /** Files are listed first, for the line of a file comes after it. */
  private async *matchPart(isOfPart: (key: Buffer) => boolean, files: KeySet, uploads: KeySet): AsyncGenerator<Finding> {
    for await (const { key } of this.files(isOfPart)) files.add(key);
    for await (const line of this.index()) {
      if ('state' in line) continue;
      const { upload_id: uploadId, content_path: path } = members(line.value);
      if (typeof path === 'string') files.delete(keyOf(path));
      const key = typeof uploadId === 'string' ? keyOf(uploadId) : undefined;
      if (!key || !isOfPart(key) || uploads.add(key) || !(await this.underWay.stays(line.segment, line.end))) continue;
      yield lineFinding(line, { state: 'defect', kind: 'line-duplicate', detail: 'another line has the same upload_id' });
    }
    if (files.size === 0) return;
    // Whose marker is gone after the file was seen has its line by now, or is no file any more.
    for await (const { key, path, uploadId } of this.files((key) => files.has(key))) {
      if (!(await this.underWay.isPublished(uploadId, path))) continue;
      files.delete(key);
      yield { state: 'under-way', kind: 'line-absent', path, uploadId, line: null, detail: 'its line is being written, or left for the next boot to remove' };
    }
    if (files.size === 0) return;
    for await (const line of this.index(false)) {
      if ('state' in line) continue;
      const { content_path: path } = members(line.value);
      if (typeof path === 'string') files.delete(keyOf(path));
    }
    if (files.size === 0) return;
    for await (const { path, uploadId } of this.files((key) => files.has(key))) {
      // Its line may be where nothing could be read.
      const state = this.indexIsWhole ? 'defect' : 'unknown';
      yield { state, kind: 'line-absent', path, uploadId, line: null, detail: 'no line names the file' };
    }
  }

  private async *files(isWanted: (key: Buffer) => boolean): AsyncGenerator<{ key: Buffer; path: string; uploadId: string }> {
    for await (const { type, path, name } of walkContent(this.root)) {
      if (type !== 'file') continue;
      const key = keyOf(path);
      if (isWanted(key)) yield { key, path, uploadId: uploadIdOfFile(name) };
    }
  }

  /** All lines of all segments; a finding for a segment that can't be read. */
  private async *index(counts = true): AsyncGenerator<SegmentLine | Finding> {
    const onBytes = (bytes: number): void => {
      if (counts) this.progress.done += bytes;
    };
    for await (const { type, path } of walkSegments(this.root)) {
      if (type !== 'file') continue;
      try {
        yield* segmentLines(this.root, path, this.underWay, onBytes);
      } catch (error) {
        this.indexIsWhole = false;
        yield { state: 'unknown', kind: 'unreadable', path, uploadId: null, line: null, detail: messageOf(error) };
      }
    }
  }

  private begin(phase: VerificationProgress['phase'], passes: number): void {
    Object.assign(this.progress, { phase, done: 0, total: this.indexBytes * passes });
  }

  /** For the progress only: who reads the segment tells what is wrong with it. */
  private sizeOf(path: string): Promise<number> {
    return stat(join(this.root, path)).then(({ size }) => size, () => 0);
  }
}

const messageOf = (error: unknown): string => (error as Error).message;

const placeOf = ({ segment, offset }: SegmentLine): NonNullable<Finding['line']> => ({ segment, offset });

const members = (value: unknown): Record<string, unknown> => (value ?? {}) as Record<string, unknown>;

function lineFinding(line: SegmentLine, what: { state: Finding['state']; kind: FindingKind; detail: string }): Finding {
  const { upload_id: uploadId } = members(line.value);
  return { ...what, path: line.segment, uploadId: typeof uploadId === 'string' ? uploadId : null, line: placeOf(line) };
}

function unexpected(entry: Entry): Finding {
  const { path } = entry;
  return entry.type === 'unreadable'
    ? { state: 'unknown', kind: 'unreadable', path, uploadId: null, line: null, detail: messageOf(entry.error) }
    : { state: 'defect', kind: 'name-unknown', path, uploadId: null, line: null, detail: 'the layout has no such name, or not of this type' };
}
