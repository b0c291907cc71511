import type { FileStorage } from '../ingestion/application/ports/file-storage.port.js';
import type { StoredUploads, UploadFilter, UploadPosition } from '../ingestion/application/ports/stored-uploads.port.js';
import type { Upload } from '../ingestion/domain/upload.js';

/** Returns the `StoredUploads` of a store. Throws if the store has none. */
export function uploadsOf({ storedUploads: uploads }: FileStorage): StoredUploads {
  if (!uploads) throw new Error('FileStorage.storedUploads is undefined: return the StoredUploads of the store.');
  return uploads;
}

/** Lists all uploads that match a filter, or those of them after a position, with at most `limit` uploads per page. */
export async function listed(uploads: StoredUploads, filter: UploadFilter, limit: number, after?: UploadPosition): Promise<Upload[]> {
  const all: Upload[] = [];
  for (let next: UploadPosition | null | undefined = after; next !== null; ) {
    const page = await uploads.list(filter, limit, next);
    all.push(...page.uploads);
    ({ next } = page);
  }
  return all;
}

/** Reads an upload's file, or a range of the file. Resolves to undefined if the upload was removed or has no file. */
export async function contentOf(uploads: StoredUploads, upload: Upload, range?: { first: number; last: number }): Promise<Buffer | undefined> {
  const bytes = await uploads.openContent(upload, range);
  if (!bytes) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of bytes) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}
