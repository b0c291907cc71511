import { open, readdir, readFile, readlink, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { containsText } from '../../../../application/contains-text.js';
import { UPLOAD_ID } from '../../../../domain/layout-names.js';
import { members, type SegmentLine } from '../../../../application/store-verification/line-splitter.js';
import { JOURNAL_EXTENSION } from '../content-journals.js';
import { unlessAbsent } from '../disk-error.js';
import { decodeRecords } from '../journal.js';
import { jsonOfLink } from '../link-json.js';
import { asPendingMarker, type PendingMarker, type SegmentMarker } from '../pending-markers.js';
import { decodeRemovalList, REMOVAL_EXTENSION } from '../stored-uploads/removal-list.js';
import { READ_ONLY } from './content-check.js';

/**
 * Reports, from `pending/`, what a running service has in progress and what the next boot will repair. Check a marker
 * after reading the file or index line that it is about: the marker exists from before the file is created until after
 * the line is written.
 */
export class WorkInProgress {
  private pending = { state: '', files: new Set<string>() };

  constructor(
    private readonly root: string,
  ) {}

  /** Whether the upload's marker, a journal or a removal list in `pending/` names the upload's file. */
  async isPublished(uploadId: string, contentPath: string): Promise<boolean> {
    const marker = await this.marker(uploadId);
    if (marker && 'content_path' in marker && marker.content_path === contentPath) return true;
    return (await this.pendingFiles()).has(contentPath);
  }

  /** Whether a removal list or a journal names a segment or file, so that a removal or a boot may be replacing it. */
  async isReplaced(path: string): Promise<boolean> {
    return (await this.pendingFiles()).has(path);
  }

  private async pendingFiles(): Promise<ReadonlySet<string>> {
    const directory = join(this.root, 'pending');
    const names = (await namesIn(directory)).filter((name) => name.endsWith(JOURNAL_EXTENSION) || name.endsWith(REMOVAL_EXTENSION));
    const states = await Promise.all(names.map((name) => stateOf(join(directory, name))));
    const state = JSON.stringify([names, states]);
    if (state !== this.pending.state) {
      const regular = names.filter((_, index) => states[index] !== '');
      const files = await Promise.all(regular.map(async (name) => filesIn(name, (await unlessAbsent(readFile(join(directory, name)))) ?? Buffer.alloc(0))));
      this.pending = { state, files: new Set(files.flat()) };
    }
    return this.pending.files;
  }

  async isOpen(segment: string): Promise<boolean> {
    return (await this.segmentMarker(segment)) !== undefined;
  }

  /**
   * Whether an index line that was read stays in its segment. The lines of a failed write are cut off again, and a
   * removal moves other lines to lower offsets, so the line is found by its upload's id. A line without a valid id
   * counts as staying while the segment is long enough.
   */
  async stays(line: SegmentLine): Promise<boolean> {
    const { segment, offset, end } = line;
    const marker = await this.segmentMarker(segment);
    if (marker?.durable_length !== undefined && end > marker.durable_length) return false;
    const { upload_id: uploadId } = members(line);
    const file = await unlessAbsent(open(join(this.root, segment), READ_ONLY));
    if (!file) return false;
    try {
      if (typeof uploadId !== 'string' || !UPLOAD_ID.test(uploadId)) return (await file.stat()).size >= end;
      const isIn = (range: { readonly start: number; readonly end?: number }): Promise<boolean> =>
        containsText(file.createReadStream({ ...range, autoClose: false }), `"${uploadId}"`);
      return (await isIn({ start: offset, end: end - 1 })) || (await isIn({ start: 0 }));
    } finally {
      await file.close();
    }
  }

  private async segmentMarker(segment: string): Promise<SegmentMarker | undefined> {
    const marker = await this.marker(basename(segment, '.ndjson'));
    return marker?.segment === segment && !('content_path' in marker) ? marker : undefined;
  }

  private async marker(id: string): Promise<PendingMarker | undefined> {
    return asPendingMarker(id, await jsonOfLink(readlink(join(this.root, 'pending', id))));
  }
}

async function filesIn(name: string, bytes: Buffer): Promise<string[]> {
  if (name.endsWith(JOURNAL_EXTENSION)) return [...decodeRecords(bytes)].map(({ marker }) => marker.content_path);
  const list = await decodeRemovalList(bytes);
  return list ? [list.segment, ...list.uploads.flatMap(({ contentPath }) => contentPath ?? [])] : [];
}

const namesIn = async (directory: string): Promise<string[]> => (await unlessAbsent(readdir(directory))) ?? [];

/**
 * A text that changes when a file is written to or replaced. Empty unless a regular file is at the path: reading a FIFO
 * would wait for its writer.
 */
async function stateOf(path: string): Promise<string> {
  const stats = await unlessAbsent(stat(path, { bigint: true }));
  return stats?.isFile() ? `${stats.ino} ${stats.mtimeNs}` : '';
}
