import { basename, dirname } from 'node:path';
import { MIB } from '../../../../common/sizes.js';
import { JOURNAL_EXTENSION } from './content-journals.js';
import { DataDirectoryError } from '../../../../common/data-directory/data-directory-error.js';
import { hasCode } from '../../../../common/error-code.js';
import { Turns } from '../../../../common/turns.js';
import { SEGMENTS } from '../../../domain/layout-names.js';
import { asNotAFile, LostWritesError, NotAFileError, unlessAbsent } from './disk-error.js';
import { type DiskFile, readWhole } from './disk.js';
import { foreignLineWarning, readLines, uploadIdOf } from './index-lines.js';
import { decodeRecords, isJournal, type JournalRecord } from './journal.js';
import { LinkCheck } from './link-check.js';
import type { IndexPosition, PublicationMarker } from './pending-markers.js';
import { repairSegment } from './segment-repair.js';
import { pathOfCopied, type StoreDirectory } from './store-directory.js';
import { removeEmptied } from './stored-uploads/emptied-segments.js';
import { completeRemovals } from './stored-uploads/removal.js';
import { REMOVAL_EXTENSION, UNFINISHED_REMOVAL_EXTENSION } from './stored-uploads/removal-list.js';
import { UNFINISHED_EXTENSION } from './whole-file.js';

const MAX_JOURNAL_BYTES = 1024 * MIB;

/**
 * Recovers from a crash. Reads little more than what was in progress, so its cost hardly grows with the store. Safe to
 * run again after a crash at any point.
 *
 * @throws DataDirectoryError if something else has the name of a directory of segments; StoreAwayError; an error of the
 *   file system.
 */
export async function recover(store: StoreDirectory): Promise<void> {
  const { disk, markers } = store;
  const links = new LinkCheck(store);
  const publications = new Map<string, PublicationMarker>();
  const journals: string[] = [];
  const emptied: string[] = [];
  const ids = await markers.ids();
  for (const id of ids) {
    if (id.endsWith(REMOVAL_EXTENSION) || id.endsWith(UNFINISHED_REMOVAL_EXTENSION)) continue;
    if (id.endsWith(UNFINISHED_EXTENSION)) {
      const path = store.at('pending', id);
      await unlessForeign(store, () => disk.remove(path).catch(asNotAFile(path)));
      continue;
    }
    if (id.endsWith(JOURNAL_EXTENSION)) {
      journals.push(`pending/${id}`);
      continue;
    }
    const marker = await markers.read(id);
    if (!marker || !(await links.staysInside(marker))) {
      store.logger.warn(`${store.at('pending', id)} is not a marker of this store; leaving it alone.`);
    } else if ('content_path' in marker) {
      publications.set(id, marker);
    } else if (marker.emptied_at !== undefined) {
      emptied.push(id);
    } else {
      if (!(await unlessForeign(store, () => repairSegment(store, marker).then(() => true)))) continue;
      await markers.remove(id);
    }
  }
  // Uploads are settled after segments are repaired: a line that the repair cuts off must not count as durable.
  await settle(store, publications);
  for (const journal of journals) await replay(store, journal, links);
  await completeRemovals(store, ids);
  await removeEmptied(store, emptied);
  for (const name of await disk.readDirectory(store.at('staging'))) {
    await disk.removeTree(store.at('staging', name)).catch((error: unknown) => {
      if (!hasCode(error, 'EBUSY', 'EPERM', 'EACCES')) throw error;
      store.logger.warn(`${store.at('staging', name)} can't be removed; remove it by hand.`, error);
    });
  }
  await disk.syncDirectory(store.at('staging'));
  await markers.sync();
}

async function settle(store: StoreDirectory, publications: Map<string, PublicationMarker>): Promise<void> {
  const missing = await withoutLine(store, publications);
  for (const [id, marker] of publications) {
    if (missing.has(id) && !(await unlessForeign(store, () => removeContent(store, marker.content_path)))) continue;
    await store.markers.remove(id);
  }
}

/**
 * Replays a journal while the store is in use. All uploads whose files are in the journal must have ended, and no
 * segment may have a line that a failed append left.
 *
 * @param journal the journal's path, relative to the store's root.
 * @returns false if the journal had to be kept, or isn't a journal.
 */
export function replayJournal(store: StoreDirectory, journal: string): Promise<boolean> {
  return replay(store, journal, new LinkCheck(store));
}

/**
 * Replays a journal: restores its files that have an index line, and removes the others. A file is also restored if the
 * segment that may have contained its line was moved away. A journal whose files can't all be restored is added to
 * `ContentJournals.left`, so that no new removal of uploads begins: a removal would change the offsets of lines, and
 * the journal has the old ones.
 */
async function replay(store: StoreDirectory, journal: string, links: LinkCheck): Promise<boolean> {
  const { disk } = store;
  const content = await unlessForeign(store, async () => (await readWhole(disk, store.at(journal), MAX_JOURNAL_BYTES)) ?? Buffer.alloc(0));
  if (!content) return false;
  if (!isJournal(content)) {
    store.logger.warn(`${store.at(journal)} is not a journal of this store; leaving it alone.`);
    return false;
  }
  const records: JournalRecord[] = [];
  const turns = new Turns();
  for (const record of decodeRecords(content)) {
    if (turns.isOver) await turns.next();
    records.push(record);
  }
  const missing = await withoutLine(store, new Map(records.map(({ uploadId, marker }) => [uploadId, marker])));
  const restore = async (sync: 'syncFiles' | 'syncEach'): Promise<boolean> => {
    const losses = disk.lossCount();
    const placed = await placeAll(store, records, missing, links);
    await disk[sync](placed);
    // Lost writes that a sync of other files has reported in the meantime may be those of the journal's files.
    if (sync === 'syncFiles' && disk.lossCount() !== losses) throw new LostWritesError();
    return placed.length === records.length;
  };
  const isReplayed = await restore('syncFiles').catch((error: unknown) => {
    // After lost writes, writes all files again and syncs each by itself: any of them may be incomplete.
    if (!(error instanceof LostWritesError)) throw error;
    return restore('syncEach');
  });
  if (!isReplayed) {
    store.journals.left.add(store.at(journal));
    store.logger.warn(`${store.at(journal)} is kept, because not all of its files could be restored. No upload can be removed until they are: move away what was left alone.`);
    return false;
  }
  await disk.remove(store.at(journal));
  return true;
}

async function placeAll(store: StoreDirectory, records: readonly JournalRecord[], missing: ReadonlySet<string>, links: LinkCheck): Promise<string[]> {
  const placed: string[] = [];
  for (const record of records) {
    const isPlaced = await unlessForeign(store, () => place(store, record, missing.has(record.uploadId), links));
    if (isPlaced) placed.push(store.at(record.marker.content_path));
  }
  return placed;
}

async function place(store: StoreDirectory, { marker, bytes }: JournalRecord, isMissing: boolean, links: LinkCheck): Promise<true> {
  const { disk } = store;
  const path = store.at(marker.content_path);
  if (!(await links.staysInside(marker))) throw new NotAFileError(path);
  if (isMissing) {
    if (!(await isSegmentGone(store, marker))) {
      await disk.remove(store.pathBeside(marker.content_path));
      return removeContent(store, marker.content_path, false);
    }
    store.logger.warn(`${marker.content_path} is kept: the segment of its line was moved away.`);
  }
  // Writes the file even if it seems to have the right bytes: after a failed sync, these may be only in memory.
  await store.directories.within(dirname(path), () => store.replaceContent(marker.content_path, bytes));
  return true;
}

/** @param durably whether to make the removal durable; if false, the caller must sync the file's directory. */
async function removeContent(store: StoreDirectory, path: string, durably = true): Promise<true> {
  await (durably ? store.removeDurably(path) : store.disk.remove(store.at(path))).catch(asNotAFile(store.at(path)));
  return true;
}

async function unlessForeign<T>(store: StoreDirectory, action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof NotAFileError)) throw error;
    store.logger.warn(`${error.message} It is left alone.`);
    return undefined;
  }
}

/** Whether a position's segment is missing, although an offset other than 0 shows that the segment had lines. */
async function isSegmentGone(store: StoreDirectory, { segment, offset }: IndexPosition): Promise<boolean> {
  if (offset === 0) return false;
  return !(await segmentNames(store, dirname(segment))).includes(basename(segment));
}

async function segmentNames(store: StoreDirectory, directory: string): Promise<string[]> {
  try {
    return (await store.disk.readDirectory(store.at(directory))).filter((name) => {
      if (SEGMENTS.isFile(name)) return true;
      // A copy of a segment, probably left by a removal that a crash cut short. Recovery completes the removal later.
      if (pathOfCopied(name) !== undefined) return false;
      store.logger.warn(`${store.at(directory, name)} is not a segment of this store; leaving it alone.`);
      return false;
    });
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return [];
    // If a file has the directory's name, recovery fails: it is unknown which uploads have index lines.
    if (hasCode(error, 'ENOTDIR')) throw new DataDirectoryError(`${store.at(directory)} is not a directory: move it away, and put the right one back`, { cause: error });
    throw error;
  }
}

async function withoutLine(store: StoreDirectory, markers: ReadonlyMap<string, IndexPosition>): Promise<Set<string>> {
  const missing = new Set(markers.keys());
  for (const [directory, position] of earliestPositions(markers.values())) {
    await deleteIndexed(store, directory, position, missing);
  }
  return missing;
}

/** The earliest position in each directory, so that no directory is read twice. */
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

async function deleteIndexed(
  store: StoreDirectory,
  directory: string,
  position: IndexPosition,
  ids: Set<string>,
): Promise<void> {
  const first = basename(position.segment);
  const names = await segmentNames(store, directory);
  const turns = new Turns();
  for (const name of names.filter((name) => name >= first).sort()) {
    const file = await unlessForeign(store, () => openSegment(store, `${directory}/${name}`));
    if (!file) continue;
    try {
      const from = name === first ? position.offset : 0;
      const warn = (): void => { store.logger.warn(foreignLineWarning(store.at(directory, name))); };
      for await (const line of readLines(file, from, Infinity, warn)) {
        if (turns.isOver) await turns.next();
        ids.delete((await uploadIdOf(line)) ?? '');
      }
    } finally {
      await file.close();
    }
  }
}

async function openSegment(store: StoreDirectory, path: string): Promise<DiskFile> {
  const file = await unlessAbsent(store.disk.open(store.at(path)));
  if (!file) throw new NotAFileError(store.at(path));
  return file;
}
