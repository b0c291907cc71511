import { basename, dirname } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { unlessAbsent } from '../disk-error.js';
import { type DiskFile, readWhole } from '../disk.js';
import { NEWLINE_BYTES, readLines, uploadIdOf } from '../index-lines.js';
import { closeQuietly } from '../staged-file.js';
import type { StoreDirectory } from '../store-directory.js';
import { decodeRemovalList, encodeRemovalList, REMOVAL_EXTENSION, type RemovalList } from './removal-list.js';

const WRITE_BYTES = 1024 * 1024;
const FILES_AT_ONCE = 16;

/**
 * Removes uploads of a segment that accepts no more lines, and to which no marker or journal refers. Each step is
 * durable before the next begins:
 *
 * 1. Write the list of the uploads to `pending/`. From here on, recovery completes the removal.
 * 2. Replace the segment by a copy without their lines.
 * 3. Remove their idempotency keys from the index.
 * 4. Remove their files.
 * 5. Remove the list.
 *
 * If a step fails, the list stays, and the removal is completed by the next one or at the next boot.
 */
export async function removeUploads(store: StoreDirectory, list: RemovalList): Promise<void> {
  const path = await decide(store, list);
  await complete(store, list);
  await store.disk.remove(path);
}

/** Writes a list to `pending/`, where it appears as a whole. Resolves to its absolute path when it is durable. */
async function decide(store: StoreDirectory, list: RemovalList): Promise<string> {
  const { disk } = store;
  const name = `${uuidV7()}${REMOVAL_EXTENSION}`;
  const [staged, path] = [store.at('staging', name), store.at('pending', name)];
  store.presence.assertHere();
  const file = await disk.create(staged);
  try {
    await file.write([encodeRemovalList(list)], 0);
    await file.sync();
    await closeQuietly(file);
    await disk.rename(staged, path);
    await store.syncs.sync(store.at('pending'));
    return path;
  } catch (error) {
    await closeQuietly(file);
    await disk.remove(staged).catch(() => undefined);
    throw error;
  }
}

/**
 * Completes the removals that failed or were cut short by a crash. Returns the names in `pending/` that aren't removal
 * lists of this store, although they are called so.
 *
 * @param isSafe whether the paths of a list stay inside the store.
 */
export async function completeRemovals(store: StoreDirectory, isSafe: (list: RemovalList) => Promise<boolean> = () => Promise.resolve(true)): Promise<string[]> {
  const foreign: string[] = [];
  for (const name of await store.markers.ids()) {
    if (!name.endsWith(REMOVAL_EXTENSION)) continue;
    const path = store.at('pending', name);
    const list = decodeRemovalList((await readWhole(store.disk, path)) ?? Buffer.alloc(0));
    if (list && (await isSafe(list))) {
      await complete(store, list);
      await store.disk.remove(path);
    } else {
      foreign.push(name);
    }
  }
  return foreign;
}

async function complete(store: StoreDirectory, list: RemovalList): Promise<void> {
  store.presence.assertHere();
  const length = await rewrite(store, list);
  await store.idempotency.forget(list.segment, length, list.uploads);
  const paths = list.uploads.flatMap(({ contentPath }) => contentPath ?? []);
  for (let at = 0; at < paths.length; at += FILES_AT_ONCE) {
    await Promise.all(paths.slice(at, at + FILES_AT_ONCE).map((path) => store.disk.remove(store.at(path))));
  }
  for (const directory of new Set(paths.map(dirname))) {
    await unlessAbsent(store.disk.syncDirectory(store.at(directory)));
    await removeEmpty(store, directory);
  }
  if (length === 0) await removeEmpty(store, dirname(list.segment));
}

/** Removes the directories of a day and a customer if they are empty: their names tell of uploads that were removed. */
async function removeEmpty(store: StoreDirectory, directory: string): Promise<void> {
  // The first two levels, such as `files/kind=historical`, belong to every store.
  for (let path = directory; path.split('/').length > 2; path = dirname(path)) await store.disk.removeEmptyDirectory(store.at(path));
}

/** Replaces a segment by a copy without the lines of the list. Resolves to the length of the copy; 0 if it is empty. */
async function rewrite(store: StoreDirectory, { segment, uploads }: RemovalList): Promise<number> {
  const { disk } = store;
  const directory = dirname(store.at(segment));
  const source = await unlessAbsent(disk.open(store.at(segment)));
  if (!source) {
    // An earlier attempt may have failed to make the segment's removal durable.
    await unlessAbsent(disk.syncDirectory(directory));
    return 0;
  }
  const staged = store.at('staging', `${basename(segment, '.ndjson')}.rewritten`);
  try {
    await disk.remove(staged);
    const copy = await disk.create(staged);
    let length: number;
    try {
      length = await copyLines(source, copy, new Set(uploads.map(({ uploadId }) => uploadId)));
      await copy.sync();
    } finally {
      await closeQuietly(copy);
    }
    store.presence.assertHere();
    if (length === 0) {
      await disk.remove(store.at(segment));
      await disk.remove(staged);
    } else {
      await disk.rename(staged, store.at(segment));
    }
    await disk.syncDirectory(directory);
    return length;
  } catch (error) {
    await disk.remove(staged).catch(() => undefined);
    throw error;
  } finally {
    await closeQuietly(source);
  }
}

/** Copies the lines whose ids aren't in a set. Resolves to the length of the copy in bytes. */
async function copyLines(source: DiskFile, copy: DiskFile, removed: ReadonlySet<string>): Promise<number> {
  let length = 0;
  let gathered: Buffer[] = [];
  let gatheredBytes = 0;
  const write = async () => {
    await copy.write(gathered, length);
    length += gatheredBytes;
    gathered = [];
    gatheredBytes = 0;
  };
  for await (const line of readLines(source, 0)) {
    if (removed.has(uploadIdOf(line) ?? '')) continue;
    gathered.push(Buffer.from(line), NEWLINE_BYTES);
    gatheredBytes += line.length + 1;
    if (gatheredBytes >= WRITE_BYTES) await write();
  }
  await write();
  return length;
}
