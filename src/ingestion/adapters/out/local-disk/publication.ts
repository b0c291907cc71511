import { dirname } from 'node:path';
import { closeQuietly, type DiskFile } from './disk.js';
import { type IndexLog, LineMayRemainError } from './index-log.js';
import type { StoreDirectory } from './store-directory.js';

export interface Publication {
  readonly uploadId: string;
  /** Final path of the file, relative to the store's root. */
  readonly contentPath: string;
  /** The directory of the segment that gets the index line, relative to the store's root. */
  readonly segmentDirectory: string;
  readonly receivedAt: Date;
  /** The index line, with its newline. */
  readonly line: Uint8Array;
}

/** A file in `staging/` whose bytes aren't synced yet. */
export interface StagedFile {
  readonly path: string;
  readonly file: DiskFile;
}

/**
 * Publishes a file in `staging/` and its index line. Each step is durable before the next begins:
 *
 * 1. Add a marker for the upload and sync the file's bytes.
 * 2. Move the file to its final path.
 * 3. Append the index line.
 * 4. Remove the marker.
 *
 * If a step fails before the line is durable, removes the file and the marker. If the removal fails too, or the line
 * may remain, the marker stays, and recovery completes or undoes the upload at the next boot. After an error, the
 * caller must close the file in `staging/` and remove it.
 *
 * @throws LineMayRemainError; StoreAwayError; OtherVolumeError; an error of the file system.
 */
export async function publishStaged(
  store: StoreDirectory,
  log: IndexLog,
  staged: StagedFile,
  publication: Publication,
): Promise<void> {
  const { directories, markers } = store;
  const { uploadId, contentPath, segmentDirectory, line } = publication;
  const directory = dirname(store.at(contentPath));
  const begun = [
    staged.file.sync(),
    markers.add(uploadId, { content_path: contentPath, ...log.position(segmentDirectory) }),
  ];
  try {
    await Promise.all(begun);
    await closeQuietly(staged.file);
    await directories.within(directory, () => store.moveContent(staged.path, contentPath));
    await directories.sync(directory);
    await log.append(segmentDirectory, publication, line);
  } catch (error) {
    await Promise.allSettled(begun);
    // If the index line may remain, the file must stay: recovery removes the file if the line doesn't exist.
    if (!(error instanceof LineMayRemainError)) {
      await store.attempt(`Undoing the upload of ${contentPath}`, async () => {
        await store.removeDurably(contentPath);
        await markers.remove(uploadId);
      });
    }
    throw error;
  }
  await store.attempt(`Removing the marker of ${contentPath}`, () => markers.remove(uploadId), [markers.directory]);
}

/**
 * Publishes a small file and its index line:
 *
 * 1. Write the file's bytes to a journal.
 * 2. Create the file.
 * 3. Append the index line.
 *
 * Steps 1 and 3 are durable when they end; the file becomes durable later, before the journal is cleared or removed. If
 * step 2 or 3 fails, removes the file. If the removal fails too, or the line may remain, a marker or the journal stays,
 * and recovery completes or undoes the upload.
 *
 * @throws JournalUnavailableError before anything was done; LineMayRemainError; StoreAwayError; OtherVolumeError; an
 *   error of the file system.
 */
export async function publishSmall(
  store: StoreDirectory,
  log: IndexLog,
  bytes: Uint8Array,
  publication: Publication,
): Promise<void> {
  const { disk, directories, journals, markers } = store;
  const { uploadId, contentPath, segmentDirectory, line } = publication;
  const path = store.at(contentPath);
  const marker = { content_path: contentPath, ...log.position(segmentDirectory) };
  const held = await journals.add({ uploadId, marker, bytes }, path);
  try {
    await directories.within(dirname(path), () => store.makeContent(contentPath, bytes));
    await log.append(segmentDirectory, publication, line);
    held.release();
  } catch (error) {
    await takeBack(error).then(
      () => {
        held.release();
      },
      (reason: unknown) => {
        if (!store.presence.isAway) store.logger.warn(`Undoing the upload of ${contentPath} failed; retrying at the next boot.`, reason);
        held.leave();
      },
    );
    throw error;
  }

  async function takeBack(error: unknown): Promise<void> {
    if (!(error instanceof LineMayRemainError) && (await disk.remove(path).then(() => true, () => false))) return;
    await markers.add(uploadId, marker);
  }
}
