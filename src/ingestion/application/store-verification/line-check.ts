import { dirname } from 'node:path';
import { messageOf } from '../../../common/error-message.js';
import { concurrently } from './concurrently.js';
import type { Finding } from './finding.js';
import type { IndexReader } from './index-reader.js';
import { keyedLine } from './keyed-line.js';
import { lineFinding, placeOf } from './line-finding.js';
import { checkLine } from './line-rules.js';
import type { SegmentLine } from './line-splitter.js';
import type { StoreView } from './store-view.js';
import type { VerificationTotals } from './verification-progress.js';

const FILES_AT_ONCE = 4;

/**
 * Checks every index line by itself: that it is whole and valid, and matches its file; in a bucket, also the claim of
 * its idempotency key.
 */
export class LineCheck {
  constructor(
    private readonly view: StoreView,
    private readonly index: IndexReader,
    private readonly totals: VerificationTotals,
  ) {}

  async *findings(): AsyncGenerator<Finding> {
    this.index.begin('lines', 1);
    for await (const finding of concurrently(this.index.lines(), FILES_AT_ONCE, (line) => this.check(line))) {
      if (finding) yield finding;
    }
  }

  private async check(line: SegmentLine | Finding): Promise<Finding | undefined> {
    if ('state' in line) return line;
    if (!line.isTorn) this.totals.uploads += 1;
    try {
      return (await this.lineFinding(line)) ?? (await this.claimFinding(line));
    } catch (error) {
      return lineFinding(line, { state: 'unknown', kind: 'unreadable', detail: messageOf(error) });
    }
  }

  private async lineFinding(line: SegmentLine): Promise<Finding | undefined> {
    const { segment, isTorn, isRepairable } = line;
    if (isTorn) {
      return isRepairable
        ? lineFinding(line, { state: 'under-way', kind: 'line-torn', detail: 'the last line is being written, or left for the next boot to cut off' })
        : lineFinding(line, { state: 'defect', kind: 'line-torn', detail: 'the last line is torn' });
    }
    const checked = checkLine(line.value, dirname(segment));
    if ('problem' in checked) {
      if (!(await this.view.stays(line))) return undefined;
      return isRepairable && (await this.view.isOpen(segment))
        ? lineFinding(line, { state: 'under-way', kind: 'line-malformed', detail: 'a power cut damaged the line, and the next boot cuts it off' })
        : lineFinding(line, { state: 'defect', kind: 'line-malformed', detail: `the line is malformed: ${checked.problem}` });
    }
    const { content_path: path, content_size: size, content_sha256: sha256, upload_id: uploadId } = checked.line;
    if (path === null || size === null || sha256 === null) return undefined;
    try {
      const problem = await this.view.check({ path, size, sha256 }, (bytes) => (this.totals.bytes += bytes));
      // A line that is gone isn't reported: when an upload fails or is removed, its line is removed before its file.
      if (!problem || !(await this.view.stays(line))) return undefined;
      if (await this.view.isRestorable(uploadId, path)) {
        return { state: 'under-way', path, uploadId, line: placeOf(line), ...problem, detail: `${problem.detail}; a journal has it, and the next boot after a crash restores it` };
      }
      return { state: 'defect', path, uploadId, line: placeOf(line), ...problem };
    } catch (error) {
      return { state: 'unknown', kind: 'unreadable', path, uploadId, line: placeOf(line), detail: messageOf(error) };
    }
  }

  private async claimFinding(line: SegmentLine): Promise<Finding | undefined> {
    const keyed = keyedLine(line);
    if (!keyed || !(await this.view.isClaimAbsent?.(keyed.scope, new Date(keyed.receivedAt)))) return undefined;
    const detail = 'the claim of its idempotency key is absent; sent again before the service rebuilds it, the upload is stored twice';
    return lineFinding(line, { state: 'defect', kind: 'claim-absent', detail });
  }
}
