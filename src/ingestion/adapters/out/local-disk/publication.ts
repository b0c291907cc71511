import { dirname } from 'node:path';
import { allDone } from './all-done.js';
import type { DiskFile } from './disk.js';
import { type IndexLog, LineMayRemainError } from './index-log.js';
import { closeQuietly } from './staged-file.js';
import type { StoreDirectory } from './store-directory.js';

/** A staged file on its way to where it is to stand. */
export interface Publication {
  readonly uploadId: string;
  /** The staged file, relative to the root. */
  readonly stagedPath: string;
  /** The staged file, written and not yet synced. */
  readonly file: DiskFile;
  /** Where it is to stand, relative to the root. */
  readonly contentPath: string;
  /** The directory of its line's segment, relative to the root. */
  readonly segmentDirectory: string;
  readonly line: string;
}

/**
 * Publishes a staged file and its index line, in this order: a marker and the file's bytes, its name, the
 * line, and away with the marker; each is durable before the next.
 * What fails before the line is durable is undone; what can't be undone, the marker leaves to the next boot.
 */
export async function publish(store: StoreDirectory, log: IndexLog, publication: Publication): Promise<void> {
  const { disk, directories, markers } = store;
  const { uploadId, contentPath, segmentDirectory, line } = publication;
  const directory = dirname(store.at(contentPath));
  try {
    await allDone([
      publication.file.sync(),
      markers.add(uploadId, { content_path: contentPath, ...log.position(segmentDirectory) }),
    ]);
    await closeQuietly(publication.file);
    await directories.within(directory, () => disk.rename(store.at(publication.stagedPath), store.at(contentPath)));
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
