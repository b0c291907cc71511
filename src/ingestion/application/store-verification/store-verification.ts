import { dirname } from 'node:path';
import { IDEMPOTENCY_PERIOD_MS, idempotencyScope } from '../../domain/idempotency.js';
import type { UploadKind } from '../../domain/upload.js';
import { concurrently } from './concurrently.js';
import type { Finding, FindingKind } from './finding.js';
import { DigestSet, digestOf, partOf } from './digest-set.js';
import { uploadIdOfFile } from '../../domain/layout-names.js';
import { checkLine } from './line-rules.js';
import type { SegmentLine } from './segment-lines.js';
import type { Entry, StoreView } from './store-view.js';

/**
 * The largest number of places in each of the three sets that matching needs. Together the sets take at most 26 MiB.
 */
const MOST_PLACES = 2 ** 19;
/** The smallest number of places in a set. It has room for uploads that arrive while a small store is matched. */
const LEAST_PLACES = 2 ** 16;
const FILES_AT_ONCE = 4;

export interface VerificationOptions {
  /** About how many uploads are matched with their files in one pass over the index. Default: 262,144. */
  readonly uploadsPerPass?: number;
}

/** Counts of what has been checked so far. */
export interface VerificationTotals {
  /** Number of whole lines in the index, even malformed ones. */
  uploads: number;
  /** Number of uploaded files whose names belong to the layout. */
  files: number;
  /** How many bytes of files were read to compare them with their lines. */
  bytes: number;
  defects: number;
  underWay: number;
  /** Number of findings about things that couldn't be checked. */
  unknown: number;
}

/** How far the verification has come. */
export interface VerificationProgress {
  phase: 'listing' | 'lines' | 'matching';
  /** Bytes of the index that this phase has read. `total` is about how many bytes the phase has to read. */
  done: number;
  total: number;
}

/**
 * Compares every line of a store's index with its file, and every file with the index (docs/checking-a-store.md). Takes
 * no lock and writes nothing, so a service may be running on the store. The service's work in progress isn't reported
 * as a defect. The memory needed doesn't depend on the size of the store.
 *
 * Iterate a verification only once. It yields the findings in no particular order, each as soon as it is certain.
 * Iterating rejects with the errors of opening the view (NoStoreError if there is no store) and of the store. An error
 * of a single file or directory is a finding instead.
 */
export class StoreVerification implements AsyncIterable<Finding> {
  readonly totals: VerificationTotals = { uploads: 0, files: 0, bytes: 0, defects: 0, underWay: 0, unknown: 0 };
  readonly progress: VerificationProgress = { phase: 'listing', done: 0, total: 0 };

  constructor(
    private readonly open: () => Promise<StoreView>,
    private readonly options: VerificationOptions,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Finding> {
    for await (const finding of new Run(await this.open(), this.options, this.totals, this.progress).findings()) {
      if (finding.state === 'defect') this.totals.defects += 1;
      else if (finding.state === 'under-way') this.totals.underWay += 1;
      else this.totals.unknown += 1;
      yield finding;
    }
  }
}

class Run {
  private indexBytes = 0;
  private indexIsWhole = true;
  /** The unreadable segments that were reported. Each is reported only once, although every pass reads it. */
  private readonly unreadable = new Set<string>();
  private readonly replacing = new Set<string>();

  constructor(
    private readonly view: StoreView,
    private readonly options: VerificationOptions,
    private readonly totals: VerificationTotals,
    private readonly progress: VerificationProgress,
  ) {}

  async *findings(): AsyncGenerator<Finding> {
    yield* this.names();
    yield* this.lines();
    yield* this.matches();
  }

  /** Checks that every name belongs to the layout. Also reports each staged file. */
  private async *names(): AsyncGenerator<Finding> {
    for await (const entry of this.view.content()) {
      if (entry.type === 'file') this.totals.files += 1;
      else yield unexpected(entry);
    }
    for await (const entry of this.view.segments()) {
      if (entry.type === 'unreadable') this.indexIsWhole = false;
      if (entry.type === 'file') this.indexBytes += entry.size;
      else yield unexpected(entry);
    }
    for await (const entry of this.view.staging()) {
      const { path, name } = entry;
      if (entry.type === 'unreadable') yield unexpected(entry);
      else yield { state: 'under-way', kind: 'staged', path, uploadId: name, line: null, detail: `is arriving, or left for ${this.view.mender} to remove` };
    }
  }

  /**
   * Checks that every line is whole and matches its file, and that the claim of its idempotency key exists if the store
   * keeps claims.
   */
  private async *lines(): AsyncGenerator<Finding> {
    this.begin('lines', 1);
    for await (const finding of concurrently(this.index(), FILES_AT_ONCE, (line) => this.checkLine(line))) {
      if (finding) yield finding;
    }
  }

  /** Checks a line of the index. A finding in place of a line is returned unchanged. Never rejects. */
  private async checkLine(line: SegmentLine | Finding): Promise<Finding | undefined> {
    if ('state' in line) return line;
    if (!line.isTorn) this.totals.uploads += 1;
    try {
      return (await this.lineFinding(line)) ?? (await this.claimFinding(line));
    } catch (error) {
      return lineFinding(line, { state: 'unknown', kind: 'unreadable', detail: messageOf(error) });
    }
  }

  private async lineFinding(line: SegmentLine): Promise<Finding | undefined> {
    const { segment, isTorn, isMendable, end } = line;
    if (isTorn) {
      return isMendable
        ? lineFinding(line, { state: 'under-way', kind: 'line-torn', detail: 'the last line is being written, or left for the next boot to cut off' })
        : lineFinding(line, { state: 'defect', kind: 'line-torn', detail: 'the last line is torn' });
    }
    const checked = checkLine(line.value, dirname(segment));
    if ('problem' in checked) {
      if (!(await this.view.stays(segment, end))) return undefined;
      return isMendable && (await this.view.isOpen(segment))
        ? lineFinding(line, { state: 'under-way', kind: 'line-malformed', detail: 'the line was lost with the power, and the next boot cuts it off' })
        : lineFinding(line, { state: 'defect', kind: 'line-malformed', detail: `the line is malformed: ${checked.problem}` });
    }
    const { content_path: path, content_size: size, content_sha256: sha256, upload_id: uploadId } = checked.line;
    if (path === null || size === null || sha256 === null) return undefined;
    try {
      const problem = await this.view.check({ path, size, sha256 }, (bytes) => (this.totals.bytes += bytes));
      // The line of a failed upload is removed before its file. So if the line is gone by now, nothing is wrong.
      if (!problem || !(await this.view.stays(segment, end))) return undefined;
      if (await this.view.isRestorable(uploadId, path)) {
        return { state: 'under-way', path, uploadId, line: placeOf(line), ...problem, detail: `${problem.detail}; a journal has it, and a boot after a loss of the process restores it` };
      }
      return { state: 'defect', path, uploadId, line: placeOf(line), ...problem };
    } catch (error) {
      return { state: 'unknown', kind: 'unreadable', path, uploadId, line: placeOf(line), detail: messageOf(error) };
    }
  }

  private async claimFinding(line: SegmentLine): Promise<Finding | undefined> {
    const keyed = keyedLine(line);
    if (!keyed || !(await this.view.isClaimAbsent?.(keyed.scope, new Date(keyed.receivedAt)))) return undefined;
    const detail = 'the claim of its idempotency key is absent; sent again, the upload is stored twice';
    return lineFinding(line, { state: 'defect', kind: 'claim-absent', detail });
  }

  /** Checks that every file has a line, that no upload has two lines, and that no idempotency key has two uploads. */
  private async *matches(): AsyncGenerator<Finding> {
    const count = Math.max(this.totals.uploads, this.totals.files);
    const parts = Math.max(1, Math.ceil(count / (this.options.uploadsPerPass ?? MOST_PLACES / 2)));
    const places = placesFor(count / parts);
    const files = new DigestSet(places);
    const uploads = new DigestSet(places);
    const keys = new DigestSet(places);
    this.begin('matching', parts);
    for (let part = 0; part < parts; part++) {
      files.clear();
      uploads.clear();
      keys.clear();
      const isOfPart = (key: Buffer): boolean => partOf(key, parts) === part;
      yield* this.matchPart(isOfPart, { files, uploads, keys });
    }
  }

  /**
   * Matches one part of the files, uploads and idempotency keys (see `partOf`). Lists the files before it reads the
   * index, because the line of a file is written after the file.
   */
  private async *matchPart(isOfPart: (key: Buffer) => boolean, { files, uploads, keys }: MatchingSets): AsyncGenerator<Finding> {
    const suspects = new Suspects();
    const keySuspects = new Map<string, KeyedLine[]>();
    for await (const { key } of this.files(isOfPart)) files.add(key);
    for await (const line of this.index()) {
      if ('state' in line) {
        yield line;
        continue;
      }
      const { upload_id: uploadId, content_path: path } = members(line.value);
      if (typeof path === 'string') files.delete(digestOf(path));
      const keyed = keyedLine(line);
      if (keyed && isOfPart(keyed.key) && !addPeriod(keys, keyed)) keySuspects.set(nameOf(keyed.key), []);
      const key = typeof uploadId === 'string' ? digestOf(uploadId) : undefined;
      if (!key || !isOfPart(key) || uploads.add(key) || !(await this.view.stays(line.segment, line.end))) continue;
      if (this.view.movesLines) suspects.add(key);
      else yield duplicate(line);
    }
    if (suspects.size > 0) yield* this.duplicates(suspects);
    if (keySuspects.size > 0) yield* this.keyDuplicates(keySuspects);
    if (files.size === 0) return;
    // If the marker of a file is gone after the file was listed, the file has its line by now, or no longer exists.
    const isPublished = await this.view.publications();
    for await (const { key, path, uploadId } of this.files((key) => files.has(key))) {
      if (!(await isPublished(uploadId, path))) continue;
      files.delete(key);
      yield { state: 'under-way', kind: 'line-absent', path, uploadId, line: null, detail: `its line is being written, or left for ${this.view.mender} to remove` };
    }
    if (files.size === 0) return;
    for await (const line of this.index(false)) {
      if ('state' in line) {
        yield line;
        continue;
      }
      const { content_path: path } = members(line.value);
      if (typeof path === 'string') files.delete(digestOf(path));
    }
    if (files.size === 0) return;
    for await (const { path, uploadId } of this.files((key) => files.has(key))) {
      // If a part of the index couldn't be read, the file's line may be in that part.
      const state = this.indexIsWhole ? 'defect' : 'unknown';
      yield { state, kind: 'line-absent', path, uploadId, line: null, detail: 'no line names the file' };
    }
  }

  /**
   * Of the uploads that were read twice, finds those that really have two lines. The others have one line, which is
   * being moved or was moved to another segment.
   */
  private async *duplicates(suspects: Suspects): AsyncGenerator<Finding> {
    for await (const line of this.index(false)) {
      if ('state' in line) {
        yield line;
        continue;
      }
      const { upload_id: uploadId } = members(line.value);
      const key = typeof uploadId === 'string' ? digestOf(uploadId) : undefined;
      const first = key && suspects.firstOf(key, line);
      if (!key || !first || (first.segment === line.segment && first.offset === line.offset)) continue;
      const relation = first.segment === line.segment ? 'both' : await this.view.relation(first.segment, line.segment);
      if (relation === 'both') yield duplicate(line);
      else if (relation === 'replaces') yield* this.replacement(line.segment);
      else if (relation === 'second-only') suspects.moveTo(key, line);
    }
  }

  /**
   * Finds the idempotency keys under which two uploads were received less than 24 hours apart.
   *
   * @param suspects keys that were read more than once: in lines of several uploads, or in one line, read twice.
   */
  private async *keyDuplicates(suspects: Map<string, KeyedLine[]>): AsyncGenerator<Finding> {
    for await (const line of this.index(false)) {
      if ('state' in line) {
        yield line;
        continue;
      }
      const keyed = keyedLine(line);
      const others = keyed && suspects.get(nameOf(keyed.key));
      if (!others || others.some(({ uploadId }) => uploadId === keyed.uploadId)) continue;
      if (!(await this.view.stays(line.segment, line.end))) continue;
      const other = others.find(({ receivedAt }) => Math.abs(receivedAt - keyed.receivedAt) < IDEMPOTENCY_PERIOD_MS);
      others.push(keyed);
      if (!other) continue;
      const detail = `upload ${other.uploadId} has the same idempotency key, less than 24 hours apart`;
      yield lineFinding(line, { state: 'defect', kind: 'key-duplicate', detail });
    }
  }

  private *replacement(segment: string): Generator<Finding> {
    if (this.replacing.has(segment)) return;
    this.replacing.add(segment);
    const detail = 'it has the lines of segments that are being compacted, or is one of them';
    yield { state: 'under-way', kind: 'line-duplicate', path: segment, uploadId: null, line: null, detail };
  }

  private async *files(isWanted: (key: Buffer) => boolean): AsyncGenerator<{ key: Buffer; path: string; uploadId: string }> {
    for await (const { type, path, name } of this.view.content()) {
      if (type !== 'file') continue;
      const key = digestOf(path);
      if (isWanted(key)) yield { key, path, uploadId: uploadIdOfFile(name) };
    }
  }

  /** Yields all lines of all segments, and one finding for each segment that can't be read. */
  private async *index(counts = true): AsyncGenerator<SegmentLine | Finding> {
    const onBytes = (bytes: number): void => {
      if (counts) this.progress.done += bytes;
    };
    for await (const line of this.view.lines(onBytes)) {
      if (!('error' in line)) {
        yield line;
        continue;
      }
      this.indexIsWhole = false;
      if (this.unreadable.has(line.path)) continue;
      this.unreadable.add(line.path);
      yield { state: 'unknown', kind: 'unreadable', path: line.path, uploadId: null, line: null, detail: messageOf(line.error) };
    }
  }

  private begin(phase: VerificationProgress['phase'], passes: number): void {
    Object.assign(this.progress, { phase, done: 0, total: this.indexBytes * passes });
  }
}

/**
 * The number of places in a set for about this many digests: a power of two, of which at least half stay free unless
 * that would be more than MOST_PLACES.
 */
function placesFor(digests: number): number {
  let places = LEAST_PLACES;
  while (places < 2 * digests && places < MOST_PLACES) places *= 2;
  return places;
}

interface MatchingSets {
  readonly files: DigestSet;
  readonly uploads: DigestSet;
  /** The idempotency keys of lines, each with the period of 24 hours in which the upload of the line was received. */
  readonly keys: DigestSet;
}

/** A line with an idempotency key. */
interface KeyedLine {
  readonly scope: string;
  /** The digest of `scope`, for the sets. */
  readonly key: Buffer;
  readonly uploadId: string;
  /** Milliseconds since 1970. */
  readonly receivedAt: number;
}

function keyedLine({ value }: SegmentLine): KeyedLine | undefined {
  const { upload_id: uploadId, kind, customer_id: customerId, idempotency_key: idempotencyKey, received_at: received } = members(value);
  if (typeof uploadId !== 'string' || typeof customerId !== 'string' || typeof idempotencyKey !== 'string') return undefined;
  const receivedAt = Date.parse(String(received));
  const scope = idempotencyScope({ kind: kind as UploadKind, customerId, idempotencyKey });
  return scope === null || Number.isNaN(receivedAt) ? undefined : { scope, key: digestOf(scope), uploadId, receivedAt };
}

/**
 * Adds the idempotency key of a line. Returns false if the same key was added before for an upload that may have been
 * received less than 24 hours earlier or later.
 */
function addPeriod(keys: DigestSet, { key, receivedAt }: KeyedLine): boolean {
  const period = Math.floor(receivedAt / IDEMPOTENCY_PERIOD_MS);
  const nameIn = (other: number) => digestOf(`${nameOf(key)}\n${other}`);
  const isNear = [period - 1, period + 1].some((other) => keys.has(nameIn(other)));
  return keys.add(nameIn(period)) && !isNear;
}

const messageOf = (error: unknown): string => (error as Error).message;

const placeOf = ({ segment, offset }: SegmentLine): NonNullable<Finding['line']> => ({ segment, offset });

const members = (value: unknown): Record<string, unknown> => (value ?? {}) as Record<string, unknown>;

function lineFinding(line: SegmentLine, what: { state: Finding['state']; kind: FindingKind; detail: string }): Finding {
  const { upload_id: uploadId } = members(line.value);
  return { ...what, path: line.segment, uploadId: typeof uploadId === 'string' ? uploadId : null, line: placeOf(line) };
}

const duplicate = (line: SegmentLine): Finding =>
  lineFinding(line, { state: 'defect', kind: 'line-duplicate', detail: 'another line has the same upload_id' });

function unexpected(entry: Entry): Finding {
  const { path } = entry;
  return entry.type === 'unreadable'
    ? { state: 'unknown', kind: 'unreadable', path, uploadId: null, line: null, detail: messageOf(entry.error) }
    : { state: 'defect', kind: 'name-unknown', path, uploadId: null, line: null, detail: 'the layout has no such name, or not of this type' };
}

/** Uploads that were read twice. During the second search, also the place where the line of each was read first. */
class Suspects {
  private readonly places = new Map<string, NonNullable<Finding['line']> | undefined>();

  get size(): number {
    return this.places.size;
  }

  add(key: Buffer): void {
    this.places.set(nameOf(key), undefined);
  }

  /**
   * The place of a suspect's line that was read before the given one. Undefined if the given line is the suspect's
   * first, whose place is then remembered, or if the upload isn't a suspect.
   */
  firstOf(key: Buffer, line: SegmentLine): NonNullable<Finding['line']> | undefined {
    const name = nameOf(key);
    const place = this.places.get(name);
    if (!place && this.places.has(name)) this.moveTo(key, line);
    return place;
  }

  moveTo(key: Buffer, line: SegmentLine): void {
    this.places.set(nameOf(key), placeOf(line));
  }
}

/** A text that stands for a digest. It has as many bits of the digest as a `DigestSet` compares. */
const nameOf = (key: Buffer): string => key.toString('latin1', 0, 16);
