import { lstat, opendir, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { SegmentLine } from '../../../../application/store-verification/line-splitter.js';
import { StoreVerification, type VerificationOptions } from '../../../../application/store-verification/store-verification.js';
import {
  type ContentProblem,
  type Entry,
  type ExpectedContent,
  NoStoreError,
  type OnBytes,
  type SegmentEntry,
  type StoreView,
  type UnreadableLines,
} from '../../../../application/store-verification/store-view.js';
import { CONTENT, isLayoutPath, type LayoutRules, SEGMENTS, STAGING } from '../../../../domain/layout-names.js';
import { unlessAbsent } from '../disk-error.js';
import { pathOfCopied } from '../store-directory.js';
import { ContentCheck } from './content-check.js';
import { walkLayout } from './layout-walk.js';
import { segmentLines } from './directory-lines.js';
import { WorkInProgress } from './work-in-progress.js';

/**
 * Verifies the store in a DATA_DIR. A service may be running on it at the same time.
 *
 * @returns the findings; iterating them rejects with NoStoreError if the directory can't be read or contains no store.
 */
export const verifyStore = (directory: string, options: VerificationOptions = {}): StoreVerification =>
  new StoreVerification(() => openDirectory(directory), options);

/**
 * Opens the view of a store in a directory.
 *
 * @throws NoStoreError if the directory can't be read, or contains no store.
 */
export async function openDirectory(directory: string): Promise<StoreView> {
  try {
    const root = await realpath(directory);
    const names = new Set<string>();
    for await (const { name } of await opendir(root)) if (name === 'uploads' || name === 'files') names.add(name);
    if (names.size > 0) return new DirectoryView(root);
  } catch (error) {
    throw new NoStoreError(directory, (error as Error).message);
  }
  throw new NoStoreError(directory, 'it has neither uploads/ nor files/');
}

class DirectoryView implements StoreView {
  readonly recoveredBy = 'the next boot';
  readonly movesLines = false;
  private readonly work: WorkInProgress;
  private readonly checks: ContentCheck[] = [];

  constructor(
    private readonly root: string,
  ) {
    this.work = new WorkInProgress(root);
  }

  async *segments(): AsyncGenerator<SegmentEntry> {
    for await (const entry of this.walk(SEGMENTS)) {
      yield { ...entry, size: entry.type === 'file' ? await this.sizeOf(entry.path) : 0 };
    }
  }

  content(): AsyncIterable<Entry> {
    return this.walk(CONTENT);
  }

  staging(): AsyncIterable<Entry> {
    return walkLayout(this.root, STAGING);
  }

  async *lines(onBytes: OnBytes): AsyncGenerator<SegmentLine | UnreadableLines> {
    for await (const { type, path } of walkLayout(this.root, SEGMENTS)) {
      if (type !== 'file') continue;
      try {
        yield* segmentLines(this.root, path, this.work, onBytes);
      } catch (error) {
        yield { path, error };
      }
    }
  }

  async check(expected: ExpectedContent, onBytes: OnBytes): Promise<ContentProblem | undefined> {
    const check = this.checks.pop() ?? new ContentCheck(this.root);
    try {
      return await check.check(expected, onBytes);
    } finally {
      this.checks.push(check);
    }
  }

  isRestorable(uploadId: string, contentPath: string): Promise<boolean> {
    return this.work.isPublished(uploadId, contentPath);
  }

  publications(): Promise<(uploadId: string, contentPath: string) => Promise<boolean>> {
    return Promise.resolve((uploadId, contentPath) => this.work.isPublished(uploadId, contentPath));
  }

  isOpen(segment: string): Promise<boolean> {
    return this.work.isOpen(segment);
  }

  stays(line: SegmentLine): Promise<boolean> {
    return this.work.stays(line);
  }

  relation(): Promise<'both'> {
    return Promise.resolve('both');
  }

  private async *walk(rules: LayoutRules): AsyncGenerator<Entry> {
    for await (const entry of walkLayout(this.root, rules)) {
      const path = entry.type === 'unknown' ? pathOfCopied(entry.path) : undefined;
      if (path === undefined || !isLayoutPath(path, rules)) yield entry;
      else if (await this.work.isReplaced(path)) yield { ...entry, type: 'replacement' };
      // If the name is gone, the file was replaced in the meantime, and nothing is reported.
      else if (await unlessAbsent(lstat(join(this.root, entry.path)))) yield entry;
    }
  }

  /** The size of a segment; 0 after an error, which is reported when the segment is read. */
  private sizeOf(path: string): Promise<number> {
    return stat(join(this.root, path)).then(({ size }) => size, () => 0);
  }
}
