import { basename, dirname } from 'node:path';
import { JOURNAL_EXTENSION } from './content-journals.js';
import { hasCode } from './disk-error.js';
import { readWhole } from './disk.js';
import { readLines, uploadIdOf } from './index-lines.js';
import { decodeRecords } from './journal-records.js';
import type { IndexPosition, PublicationMarker } from './pending-markers.js';
import { repairSegment } from './segment-repair.js';
import type { StoreDirectory } from './store-directory.js';

/**
 * Puts in order what a lost process left under way, and reads nothing else: what it costs doesn't depend on how much
 * is stored. It may be lost itself at any point, and run again.
 */
export async function recover(store: StoreDirectory): Promise<void> {
  const { disk, markers } = store;
  const publications = new Map<string, PublicationMarker>();
  const journals: string[] = [];
  for (const id of await markers.ids()) {
    if (id.endsWith(JOURNAL_EXTENSION)) {
      journals.push(store.at('pending', id));
      continue;
    }
    const marker = await markers.read(id);
    if (!marker) {
      store.logger.warn(`pending/${id} is no marker; it is left alone.`);
    } else if ('content_path' in marker) {
      publications.set(id, marker);
    } else {
      await repairSegment(store, marker);
      await markers.remove(id);
    }
  }
  // Only now, for the lines of a segment that was torn count from here on.
  await settle(store, publications);
  for (const journal of journals) await replay(store, journal);
  for (const name of await disk.readDirectory(store.at('staging'))) await disk.remove(store.at('staging', name));
  await disk.syncDirectory(store.at('staging'));
  await markers.sync();
}

/** Removes the files whose lines aren't there. */
async function settle(store: StoreDirectory, publications: Map<string, PublicationMarker>): Promise<void> {
  const missing = await withoutLine(store, publications);
  for (const [id, marker] of publications) {
    if (missing.has(id)) await store.removeDurably(marker.content_path);
    await store.markers.remove(id);
  }
}

/** Puts the files of a journal in place whose lines are there, removes the others, and then the journal. */
async function replay(store: StoreDirectory, journal: string): Promise<void> {
  const { disk } = store;
  const records = [...decodeRecords((await readWhole(disk, journal)) ?? Buffer.alloc(0))];
  const missing = await withoutLine(store, new Map(records.map(({ uploadId, marker }) => [uploadId, marker])));
  for (const { uploadId, marker, bytes } of records) {
    const path = store.at(marker.content_path);
    if (missing.has(uploadId)) {
      if (await isSegmentGone(store, marker)) store.logger.warn(`${marker.content_path} is kept: the segment of its line was moved away.`);
      else await disk.remove(path);
    } else if (!(await readWhole(disk, path))?.equals(bytes)) {
      await disk.remove(path);
      await store.directories.within(dirname(path), () => disk.createWith(path, bytes));
    }
  }
  await disk.syncFiles(records.map(({ marker }) => store.at(marker.content_path)));
  await disk.remove(journal);
}

/** Whether a segment isn't there any more that had lines. */
async function isSegmentGone(store: StoreDirectory, { segment, offset }: IndexPosition): Promise<boolean> {
  if (offset === 0) return false;
  return !(await segmentNames(store, dirname(segment))).includes(basename(segment));
}

const segmentNames = (store: StoreDirectory, directory: string): Promise<string[]> =>
  store.disk.readDirectory(store.at(directory)).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return [];
    throw error;
  });

/** Those of some uploads whose lines aren't there. */
async function withoutLine(store: StoreDirectory, markers: ReadonlyMap<string, IndexPosition>): Promise<Set<string>> {
  const missing = new Set(markers.keys());
  for (const [directory, position] of earliestPositions(markers.values())) {
    await deleteIndexed(store, directory, position, missing);
  }
  return missing;
}

/** One position for each directory of segments, so that each is read once, however many files were under way. */
function earliestPositions(positions: Iterable<IndexPosition>): Map<string, IndexPosition> {
  const earliest = new Map<string, IndexPosition>();
  for (const { segment, offset } of positions) {
    const known = earliest.get(dirname(segment));
    if (!known || segment < known.segment || (segment === known.segment && offset < known.offset)) {
      earliest.set(dirname(segment), { segment, offset });
    }
  }
  return earliest;
}

/** Takes those ids out of a set whose lines stand at a position or behind it. */
async function deleteIndexed(
  store: StoreDirectory,
  directory: string,
  position: IndexPosition,
  ids: Set<string>,
): Promise<void> {
  const first = basename(position.segment);
  const names = await segmentNames(store, directory);
  for (const name of names.filter((name) => name >= first).sort()) {
    const file = await store.disk.open(store.at(directory, name));
    try {
      for await (const line of readLines(file, name === first ? position.offset : 0)) ids.delete(uploadIdOf(line) ?? '');
    } finally {
      await file.close();
    }
  }
}
