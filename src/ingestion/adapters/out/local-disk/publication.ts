import { dirname } from 'node:path';
import { allDone } from './all-done.js';
import type { DiskFile } from './disk.js';
import { type IndexLog, LineMayRemainError } from './index-log.js';
import { closeQuietly } from './staged-file.js';
import type { StoreDirectory } from './store-directory.js';

/** A file and its line on their way to where they are to stand. */
export interface Publication {
  readonly uploadId: string;
  /** Where the file is to stand, relative to the root. */
  readonly contentPath: string;
  /** The directory of its line's segment, relative to the root. */
  readonly segmentDirectory: string;
  /** With its newline. */
  readonly line: Uint8Array;
}

/** A file in `staging/`, written and not yet synced. */
export interface StagedFile {
  /** Relative to the root. */
  readonly path: string;
  readonly file: DiskFile;
}

/**
 * Publishes a staged file and its index line, in this order: a marker and the file's bytes, its name, the
 * line, and away with the marker; each is durable before the next.
 * What fails before the line is durable is undone; what can't be undone, the marker leaves to the next boot.
 */
export async function publishStaged(
  store: StoreDirectory,
  log: IndexLog,
  staged: StagedFile,
  publication: Publication,
): Promise<void> {
  const { disk, directories, markers } = store;
  const { uploadId, contentPath, segmentDirectory, line } = publication;
  const directory = dirname(store.at(contentPath));
  try {
    await allDone([
      staged.file.sync(),
      markers.add(uploadId, { content_path: contentPath, ...log.position(segmentDirectory) }),
    ]);
    await closeQuietly(staged.file);
    await directories.within(directory, () => disk.rename(store.at(staged.path), store.at(contentPath)));
    await store.syncs.sync(directory);
    await log.append(segmentDirectory, line);
  } catch (error) {
    // A line that may remain must find its file: the next boot sees which it is, and goes by the marker.
    if (!(error instanceof LineMayRemainError)) {
      await store.attempt(`Taking back ${contentPath}`, async () => {
        await store.removeDurably(contentPath);
        await markers.remove(uploadId);
      });
    }
    throw error;
  }
  await store.attempt(`Removing the marker of ${contentPath}`, () => markers.remove(uploadId));
}

/**
 * Publishes a small file and its index line, in this order: a journal has its bytes, it is in its place, and the line.
 * The first and the last are durable before the next; the second is when the journal lets go of it.
 * What fails before the line is durable is undone; what can't be undone, the journal leaves to the next boot.
 *
 * @throws JournalUnavailableError when nothing was done; what the file system throws.
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
    await log.append(segmentDirectory, line);
    held.release();
  } catch (error) {
    await takeBack(error).then(
      () => {
        held.release();
      },
      (reason: unknown) => {
        if (!store.presence.isAway) store.logger.warn(`Taking back ${contentPath} failed; the next boot does it.`, reason);
        held.leave();
      },
    );
    throw error;
  }

  /** A line that may remain must find its file; what can't be decided, a marker takes over from the journal. */
  async function takeBack(error: unknown): Promise<void> {
    if (!(error instanceof LineMayRemainError) && (await disk.remove(path).then(() => true, () => false))) return;
    await markers.add(uploadId, marker);
  }
}
