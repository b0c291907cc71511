import { type Finding, unreadable } from './finding.js';
import { IndexReader } from './index-reader.js';
import { LineCheck } from './line-check.js';
import { Matching } from './matching.js';
import type { Entry, StoreView } from './store-view.js';
import type { VerificationProgress, VerificationTotals } from './verification-progress.js';

export interface VerificationOptions {
  /** About how many uploads are matched with their files in one pass over the index. Default: 262,144. */
  readonly uploadsPerPass?: number;
}

/**
 * Compares every line of a store's index with its file, and every file with the index (docs/checking-a-store.md). Takes
 * no lock and writes nothing, so a service may be running on the store. The memory needed doesn't depend on the size of
 * the store.
 *
 * Iterate a verification only once. It yields the findings in no particular order. Iterating rejects with the errors of
 * opening the store (NoStoreError if there is no store) and of reading it, and with DigestSetFullError if the store
 * grows too much meanwhile. An error of a single file or directory is a finding instead.
 */
export class StoreVerification implements AsyncIterable<Finding> {
  readonly totals: VerificationTotals = { uploads: 0, files: 0, bytes: 0, defects: 0, underWay: 0, unknown: 0 };
  readonly progress: VerificationProgress = { phase: 'listing', done: 0, total: 0 };

  constructor(
    private readonly open: () => Promise<StoreView>,
    private readonly options: VerificationOptions,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Finding> {
    for await (const finding of this.findings(await this.open())) {
      if (finding.state === 'defect') this.totals.defects += 1;
      else if (finding.state === 'under-way') this.totals.underWay += 1;
      else this.totals.unknown += 1;
      yield finding;
    }
  }

  private async *findings(view: StoreView): AsyncGenerator<Finding> {
    const index = new IndexReader(view, this.progress);
    yield* this.names(view, index);
    yield* new LineCheck(view, index, this.totals).findings();
    yield* new Matching(view, index, this.options.uploadsPerPass).findings(Math.max(this.totals.uploads, this.totals.files));
  }

  private async *names(view: StoreView, index: IndexReader): AsyncGenerator<Finding> {
    for await (const entry of view.content()) {
      if (entry.type === 'file') this.totals.files += 1;
      else yield unexpected(entry, view);
    }
    for await (const entry of view.segments()) {
      index.add(entry);
      if (entry.type !== 'file') yield unexpected(entry, view);
    }
    for await (const entry of view.staging()) {
      const { path, name } = entry;
      if (entry.type === 'unreadable') yield unexpected(entry, view);
      else yield { state: 'under-way', kind: 'staged', path, uploadId: name, line: null, detail: `is arriving, or left for ${view.recoveredBy} to remove` };
    }
  }
}

function unexpected({ type, path, error }: Entry, { recoveredBy }: StoreView): Finding {
  if (type === 'unreadable') return unreadable(path, error);
  if (type === 'replacement') return { state: 'under-way', kind: 'staged', path, uploadId: null, line: null, detail: `is about to replace the file beside it, or left for ${recoveredBy} to remove` };
  return { state: 'defect', kind: 'name-unknown', path, uploadId: null, line: null, detail: 'the layout has no such name, or not of this type' };
}
