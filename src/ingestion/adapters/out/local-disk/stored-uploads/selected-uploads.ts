import { decodeIndexLine } from '../../../../application/line-decoding.js';
import type { UploadFilter } from '../../../../application/ports/stored-uploads.port.js';
import { kindOf } from '../../../../domain/layout.js';
import { isSelected } from '../../../../domain/upload-filter.js';
import type { Upload } from '../../../../domain/upload.js';
import type { StoreDirectory } from '../store-directory.js';
import { ChunkBuffer } from './chunk-buffer.js';
import { CustomerLines } from '../../../../application/customer-lines.js';
import { UPLOADS_PER_GROUP } from './removal.js';
import { type RemovedUpload, removedUpload } from './removal-list.js';
import type { SegmentReader } from './segment-reader.js';

/** Whether a segment (file of index lines) has an upload that a filter selects. False if there is no such segment. */
export async function hasSelected(store: StoreDirectory, segment: string, filter: UploadFilter): Promise<boolean> {
  const uploads = selected(store, segment, filter);
  const { done } = await uploads.next();
  await uploads.return(undefined);
  return done !== true;
}

export async function countSelected(store: StoreDirectory, segment: string, filter: UploadFilter): Promise<number> {
  let count = 0;
  for await (const { length } of selectedGroups(store, segment, filter)) count += length;
  return count;
}

/** The uploads of a segment that a filter selects, in groups of at most UPLOADS_PER_GROUP. */
export async function* selectedGroups(store: StoreDirectory, segment: string, filter: UploadFilter): AsyncGenerator<RemovedUpload[], void, void> {
  let uploads: RemovedUpload[] = [];
  for await (const upload of selected(store, segment, filter)) {
    if (uploads.push(removedUpload(upload)) < UPLOADS_PER_GROUP) continue;
    yield uploads;
    uploads = [];
  }
  yield uploads;
}

/** The lines of a segment, or only those of a customer. */
export async function* linesOf(store: StoreDirectory, path: string, customerId?: string): AsyncGenerator<Buffer> {
  const segment = await store.segments.open(path);
  if (!segment) return;
  try {
    yield* readFromEnd(segment, path, customerId);
  } finally {
    await segment.close();
  }
}

async function* selected(store: StoreDirectory, path: string, filter: UploadFilter): AsyncGenerator<Upload, void, void> {
  for await (const line of linesOf(store, path, filter.customerId)) {
    const upload = await decodeIndexLine(line);
    if (upload && isSelected(upload, filter)) yield upload;
  }
}

async function* readFromEnd(segment: SegmentReader, path: string, customerId: string | undefined): AsyncGenerator<Buffer> {
  const wanted = customerId === undefined ? undefined : new CustomerLines(kindOf(path), customerId);
  const buffer = new ChunkBuffer();
  try {
    for (let end = segment.length; end > 0; ) {
      const { begin, lines } = await segment.linesBefore(end, undefined, buffer, wanted);
      for (const { bytes } of lines) if (!wanted || (await wanted.has(bytes))) yield bytes;
      end = begin;
    }
  } finally {
    await buffer.close();
  }
}
