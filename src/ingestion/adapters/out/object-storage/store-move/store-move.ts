import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { eachOf } from '../../../../../common/each-of.js';
import { MIB } from '../../../../../common/sizes.js';
import { parseJson } from '../../../../../common/text.js';
import { ContentDigest } from '../../../../application/content.js';
import { decodeIndexLine } from '../../../../application/line-decoding.js';
import type { SourceLine, StoreSource } from '../../../../application/store-move/store-source.js';
import { concurrently } from '../../../../application/store-verification/concurrently.js';
import { checkLine } from '../../../../application/store-verification/line-rules.js';
import { type ContentProblem, digestProblem, type ExpectedContent, otherSize } from '../../../../application/store-verification/store-view.js';
import { type Bucket, ObjectExistsError } from '../bucket.js';
import { CLAIMS, HEALTH, MOVE } from '../keys.js';
import { removeListed } from '../remove-listed.js';
import { dayOf } from '../segment-names.js';
import { bytesOf, type Note, NOTE } from './move-note.js';
import { MovedLines } from './moved-lines.js';

const FILES_AT_ONCE = 8;
const LOOKED_UP_AT_ONCE = 2_000;
/** An interrupted move may have left parts in the bucket only of files longer than this. */
const MIN_PARTS_BYTES = MIB;
const FILES = 'files/';
const LINES = 'uploads/';

/** The store can't be moved to this bucket: it contains something else, or a service has used it. */
class BucketTakenError extends Error {
  constructor(reason: string) {
    super(`${reason} Choose an empty bucket, or another prefix.`);
    this.name = new.target.name;
  }
}

export interface MoveProblem {
  readonly path: string;
  readonly detail: string;
}

export interface MoveTotals {
  /** `uploads`: the well-formed index lines of the store. `files` and `bytes`: the files that these lines name. */
  uploads: number;
  files: number;
  bytes: number;
  copiedFiles: number;
  copiedBytes: number;
  problems: number;
}

export interface MoveProgress {
  phase: 'counting' | 'files' | 'lines';
  /** What is done so far: bytes of files in phase `files`, uploads in phase `lines`, and 0 in phase `counting`. */
  done: number;
  total: number;
}

/**
 * Copies a store with all its uploads to an empty bucket. An object (`move`) in the bucket names the store, so that
 * only a move of the same store continues there. Safe to interrupt at any point and to run again.
 *
 * `copyFiles` may run while a service uses the store: it copies only files, which nobody finds without index lines.
 * `finish` needs the lock of the store. It copies the remaining files, removes from the bucket the files of uploads
 * that were removed from the store meanwhile, and writes all lines, and the claims of idempotency keys still in use.
 *
 * A file becomes visible in the bucket only if its size and sha-256 are those in its line.
 */
export class StoreMove {
  readonly totals: MoveTotals = { uploads: 0, files: 0, bytes: 0, copiedFiles: 0, copiedBytes: 0, problems: 0 };
  readonly progress: MoveProgress = { phase: 'counting', done: 0, total: 0 };
  wasMovedBefore = false;
  private isResumed = false;

  constructor(
    private readonly source: StoreSource,
    private readonly bucket: Bucket,
    private readonly dryRun: boolean,
  ) {}

  /**
   * Begins or continues the move. Resolves to whether it is complete, and the store hasn't changed since.
   *
   * @throws BucketTakenError if another store was moved to the bucket, if the object `move` is damaged, or if there is
   *   no such object and the bucket isn't empty.
   * @throws BucketTakenError if the store has changed since a complete move and a service has used the bucket.
   * @throws errors of the store and of the bucket.
   */
  async begin(): Promise<boolean> {
    const { storeId } = this.source;
    let found = await this.note();
    if (!found) {
      await this.assertEmpty();
      if (this.dryRun || (await this.bucket.create(MOVE, bytesOf({ store_id: storeId }))) !== undefined) return false;
      found = await this.note();
    }
    if (found?.store_id !== storeId) throw new BucketTakenError('Another store was moved to the bucket.');
    this.isResumed = true;
    return this.isMoved(found);
  }

  /**
   * Copies the files that the bucket doesn't have yet; in a dry run, only counts them. Yields the lines and files that
   * can't be moved. Rejects with an error of the store or of the bucket.
   *
   * @param isStopped true if no service uses the store. While one does, these are no problems: a missing file, a part
   *   of a segment that can't be read as lines, and a file that the bucket has with another size.
   */
  async *copyFiles(isStopped: boolean): AsyncGenerator<MoveProblem> {
    const { totals, progress } = this;
    Object.assign(totals, { uploads: 0, files: 0, bytes: 0 });
    Object.assign(progress, { phase: 'counting', done: 0, total: 0 });
    for await (const line of this.source.lines()) {
      const checked = check(line);
      if (!('problem' in checked)) {
        totals.uploads += 1;
        if (checked.content) {
          totals.files += 1;
          totals.bytes += checked.content.size;
        }
      } else if (isStopped || line.bytes) {
        yield this.problem(line.segment, checked.problem);
      }
    }
    Object.assign(progress, { phase: 'files', done: 0, total: totals.bytes });
    for await (const problem of concurrently(this.missingFiles(), FILES_AT_ONCE, (file) => this.copy(file, isStopped))) {
      if (problem) yield this.problem(problem.path, problem.detail);
    }
  }

  /**
   * Completes the move, if no other run has done so. This process must have the lock of the store. If a line or file
   * can't be moved, yields it, and leaves the move incomplete. Rejects with an error of the store or of the bucket.
   *
   * @param assertHere rejects if a directory of the store isn't at its path.
   * @throws BucketTakenError if a service has used the bucket since the move began; an Error if the store changes
   *   meanwhile, or if the bucket and the store don't have as many files in common as the lines name.
   */
  async *finish(assertHere: () => Promise<void>): AsyncGenerator<MoveProblem> {
    const note = await this.note();
    this.wasMovedBefore = note !== undefined && (await this.isMoved(note));
    if (this.wasMovedBefore) return;
    const before = this.totals.problems;
    yield* this.copyFiles(true);
    if (this.totals.problems > before) return;
    await assertHere();
    const { storeId } = this.source;
    await this.assertUnused('A service has used the bucket since the move began', note?.has_lines);
    await this.bucket.replace(MOVE, bytesOf({ store_id: storeId, has_lines: true }));
    await this.removeOtherFiles();
    const lines = new MovedLines(this.bucket);
    const sha256 = await this.writeLines(lines);
    // An earlier attempt may have written lines and claims of uploads that were removed since. These are removed after
    // all writes, and no key that this attempt has written: a late removal would remove what was written after it.
    for (const prefix of [LINES, CLAIMS]) await removeListed(this.bucket, prefix, ({ key }) => !lines.written.has(key));
    const completedAt = new Date(this.bucket.storeTime).toISOString();
    await this.bucket.replace(MOVE, bytesOf({ store_id: storeId, has_lines: true, completed_at: completedAt, lines_sha256: sha256 }));
  }

  private async note(): Promise<Note | undefined> {
    const found = await this.bucket.read(MOVE);
    if (!found) return undefined;
    const { data } = NOTE.safeParse(parseJson(found.bytes));
    if (!data) throw new BucketTakenError(`The object "${MOVE}" in the bucket is damaged.`);
    return data;
  }

  private async isMoved({ completed_at: completedAt, lines_sha256: sha256 }: Note): Promise<boolean> {
    if (completedAt === undefined) return false;
    if ((await this.linesSha256()) === sha256) return true;
    await this.assertUnused('The store has changed since it was moved, and a service has used the bucket', true);
    return false;
  }

  private async linesSha256(): Promise<string | undefined> {
    const hash = createHash('sha256');
    for await (const { bytes } of this.source.lines()) {
      if (!bytes) return undefined;
      hash.update(bytes);
    }
    return hash.digest('hex');
  }

  private async assertEmpty(): Promise<void> {
    for await (const { key, size } of this.bucket.list('')) {
      // Empty objects in the place of directories don't count: consoles create them.
      if (size > 0 || !(key === '' || key.endsWith('/'))) throw new BucketTakenError(`The bucket is not empty: it has ${JSON.stringify(key)}.`);
    }
  }

  /**
   * Throws BucketTakenError if a service has used the bucket, because its uploads must not be removed. Signs are the
   * object `health`, which a service writes, and directories that a move doesn't create.
   *
   * @param hasLines whether the lines in the bucket may be those of a move.
   */
  private async assertUnused(reason: string, hasLines = false): Promise<void> {
    const own = hasLines ? [FILES, LINES, CLAIMS] : [FILES];
    const foreign: string[] = (await this.bucket.read(HEALTH)) ? [HEALTH] : [];
    for await (const directory of this.bucket.listDirectories('')) if (!own.includes(directory)) foreign.push(directory);
    if (foreign.length > 0) throw new BucketTakenError(`${reason} (${foreign.join(', ')}).`);
  }

  private async *missingFiles(): AsyncGenerator<ExpectedContent> {
    for await (const files of this.batches()) {
      const directories = new Set(files.map(({ path }) => dirname(path)));
      const sizes = new Map<string, number>();
      await eachOf([...directories], async (directory) => {
        for await (const { key, size } of this.bucket.list(`${directory}/`)) sizes.set(key, size);
      });
      for (const file of files) {
        if (sizes.get(file.path) === file.size) this.progress.done += file.size;
        else yield file;
      }
    }
  }

  private async *batches(): AsyncGenerator<ExpectedContent[]> {
    let batch: ExpectedContent[] = [];
    for await (const line of this.source.lines()) {
      const checked = check(line);
      if ('problem' in checked || !checked.content) continue;
      batch.push(checked.content);
      if (batch.length < LOOKED_UP_AT_ONCE) continue;
      yield batch;
      batch = [];
    }
    yield batch;
  }

  private async copy(file: ExpectedContent, isStopped: boolean): Promise<MoveProblem | undefined> {
    const { path, size } = file;
    if (this.dryRun) {
      this.count(size);
      return undefined;
    }
    if (this.isResumed && size > MIN_PARTS_BYTES) await this.bucket.removeParts(path);
    const bytes = await this.source.openContent(path);
    // While a service uses the store, a missing file is no problem: its upload may have been removed meanwhile.
    if (!bytes) return isStopped ? { path, detail: 'the file is absent' } : undefined;
    try {
      await this.bucket.upload(path, this.checked(bytes, file));
    } catch (error) {
      if (error instanceof ContentDiffersError) return { path, detail: error.message };
      if (error instanceof ObjectExistsError) return isStopped ? { path, detail: 'the bucket has another object under this name' } : undefined;
      throw error;
    }
    this.count(size);
    return undefined;
  }

  private async *checked(bytes: AsyncIterable<Uint8Array>, file: ExpectedContent): AsyncGenerator<Uint8Array> {
    const digest = new ContentDigest();
    for await (const chunk of bytes) {
      digest.add(chunk);
      this.progress.done += chunk.length;
      yield chunk;
    }
    const { size, sha256 } = digest.end();
    const problem = size === file.size ? digestProblem(sha256, file) : otherSize(size, file);
    if (problem) throw new ContentDiffersError(problem);
  }

  private count(bytes: number): void {
    this.totals.copiedFiles += 1;
    this.totals.copiedBytes += bytes;
  }

  /**
   * Removes the bucket's files that the store doesn't have. If a volume of the store has gone away, its files look like
   * those of removed uploads, so the files that stay are counted.
   */
  private async removeOtherFiles(): Promise<void> {
    let kept = 0;
    await removeListed(this.bucket, FILES, async ({ key }) => {
      const isKept = await this.source.hasContent(key);
      if (isKept) kept += 1;
      return !isKept;
    });
    const { files } = this.totals;
    if (kept !== files) throw new Error(`The store's lines name ${files} files, but ${kept} of the files in the bucket are in the store. Check the store (docs/checking-a-store.md), and run this again.`);
  }

  private async writeLines(lines: MovedLines): Promise<string> {
    const { progress } = this;
    Object.assign(progress, { phase: 'lines', done: 0, total: this.totals.uploads });
    const hash = createHash('sha256');
    for await (const { segment, bytes } of this.source.lines()) {
      const day = dayOf(segment);
      const upload = bytes && (await decodeIndexLine(bytes));
      if (!day || !upload) throw new Error(`${segment} has changed since it was checked.`);
      await lines.add(day, { upload, bytes });
      hash.update(bytes);
      progress.done += 1;
    }
    await lines.flush();
    if (progress.done !== progress.total) throw new Error(`The store had ${progress.total} uploads, and has ${progress.done} now.`);
    return hash.digest('hex');
  }

  private problem(path: string, detail: string): MoveProblem {
    this.totals.problems += 1;
    return { path, detail };
  }
}

class ContentDiffersError extends Error {
  constructor({ detail }: ContentProblem) {
    super(detail);
    this.name = new.target.name;
  }
}

function check({ segment, number, bytes }: SourceLine): { content: ExpectedContent | null } | { problem: string } {
  if (!bytes) return { problem: `line ${number} is torn, or no line of an upload` };
  const checked = checkLine(parseJson(bytes), dirname(segment));
  if ('problem' in checked) return { problem: `line ${number} is malformed: ${checked.problem}` };
  const { content_path: path, content_size: size, content_sha256: sha256 } = checked.line;
  return { content: path === null || size === null || sha256 === null ? null : { path, size, sha256 } };
}
