import { basename, dirname } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { eachOf } from '../../../../../common/each-of.js';
import { MIB } from '../../../../../common/sizes.js';
import { Turns } from '../../../../../common/turns.js';
import { asNotAFile, NotAFileError, unlessAbsent } from '../disk-error.js';
import { closeQuietly, type Disk, type DiskFile, readWhole } from '../disk.js';
import { encodeRemovedUploads } from '../event-outbox/removed-uploads.js';
import { NEWLINE_BYTES, readLines } from '../index-lines.js';
import { LinkCheck } from '../link-check.js';
import type { StoreDirectory } from '../store-directory.js';
import { writeWhole } from '../whole-file.js';
import { markEmptied } from './emptied-segments.js';
import {
  decodeRemovalList,
  decodeRemovedUpload,
  encodeRemovalLines,
  REMOVAL_EXTENSION,
  type RemovalHead,
  type RemovalList,
  type RemovedUpload,
  UNFINISHED_REMOVAL_EXTENSION,
} from './removal-list.js';
import { idOf } from './line-head.js';
import type { ResumedRemovals } from './resumed-removals.js';

const WRITE_BYTES = MIB;
export const UPLOADS_PER_GROUP = 1_000;

/** Uploads in groups of at most UPLOADS_PER_GROUP. A segment may have too many to hold all of them in memory. */
export type UploadGroups = AsyncIterable<readonly RemovedUpload[]> | Iterable<readonly RemovedUpload[]>;

/** The part of a removal's uploads that is kept in memory. The rest is only in the list in `pending/`. */
class Removal {
  count = 0;
  readonly ids = new Set<string>();
  readonly keyed: KeyedUpload[] = [];
  readonly paths: string[] = [];

  add(uploads: readonly RemovedUpload[]): void {
    this.count += uploads.length;
    for (const { uploadId, scope, contentPath } of uploads) {
      this.ids.add(uploadId);
      if (scope !== null) this.keyed.push({ uploadId, scope });
      if (contentPath !== null) this.paths.push(contentPath);
    }
  }
}

/**
 * Removes uploads of one segment (file of index lines). The segment must accept no more lines. No journal may refer to
 * the segment, and no marker to an offset in it other than 0. Each step is durable before the next begins:
 *
 * 1. Write the list of the uploads to `pending/`, while they are selected. Once it is complete, recovery completes the
 *    removal.
 * 2. Replace the segment by a copy without the lines of these uploads. The copy may be empty.
 * 3. Remove the uploads' idempotency keys from the index of keys.
 * 4. Remove the uploads' files, and directories that are then empty. (A power cut may bring empty directories back.)
 * 5. If no line is left in the segment, mark it, so that its empty file is removed later (see `EmptiedSegments`).
 * 6. If the event outbox was ever opened, write the events of the removal to `events/`.
 * 7. Remove the list.
 *
 * If a step after the first fails, the list stays, and completing the removal is tried again before the next removal
 * and at the next boot. If the first step fails, the list may stay, too.
 *
 * @returns the number of uploads.
 * @throws StoreAwayError; an error of the file system, or of the index of keys.
 */
export async function removeUploads(store: StoreDirectory, segment: string, groups: UploadGroups): Promise<number> {
  const path = store.at('pending', `${uuidV7()}${REMOVAL_EXTENSION}`);
  const head = { segment, removedAt: new Date().toISOString() };
  const removal = await decide(store, path, head, groups);
  await complete(store, path, head, removal);
  await store.disk.remove(path);
  return removal.count;
}

/** Writes the list to `pending/`, durably. After an error, it may be there, too. */
async function decide(store: StoreDirectory, path: string, head: RemovalHead, groups: UploadGroups): Promise<Removal> {
  const removal = new Removal();
  const encode = async function* (): AsyncGenerator<Buffer> {
    yield encodeRemovalLines([head]);
    for await (const uploads of groups) {
      removal.add(uploads);
      yield encodeRemovalLines(uploads);
    }
  };
  store.presence.assertHere();
  await writeWhole(store.disk, path, encode());
  await store.directories.sync(store.at('pending'));
  return removal;
}

/**
 * Completes the removals that failed or were cut short by a crash, from their lists in `pending/`. Keeps the list of a
 * removal that fails again, with a warning. Leaves alone what isn't a list, and a list with a path that leads out of
 * the store.
 *
 * @param names the names in `pending/`.
 * @throws StoreAwayError, or the error of a step, if the store is away.
 */
export async function completeRemovals(store: StoreDirectory, names: readonly string[]): Promise<ResumedRemovals> {
  const links = new LinkCheck(store);
  const completed: RemovalList[] = [];
  const failed: { list: RemovalList | undefined; error: unknown }[] = [];
  for (const name of names) {
    const path = store.at('pending', name);
    let list: RemovalList | undefined;
    try {
      if (name.endsWith(UNFINISHED_REMOVAL_EXTENSION)) await store.disk.remove(path).catch(asNotAFile(path));
      if (!name.endsWith(REMOVAL_EXTENSION)) continue;
      list = await readList(store, path, links);
      // The first step may have failed after the list had its name: then the list isn't durable yet.
      await store.directories.sync(store.at('pending'));
      await complete(store, path, list, await removalOf(list));
      await store.disk.remove(path);
      completed.push(list);
    } catch (error) {
      if (store.presence.isAway) throw error;
      if (!list && error instanceof NotAFileError) {
        store.logger.warn(`${path} is not a removal list of this store; leaving it alone.`);
        continue;
      }
      store.logger.warn(`Completing the removal in ${path} failed; retrying before the next removal, and at the next boot.`, error);
      failed.push({ list, error });
    }
  }
  return { completed, failed };
}

async function readList(store: StoreDirectory, path: string, links: LinkCheck): Promise<RemovalList> {
  const list = await decodeRemovalList((await readWhole(store.disk, path)) ?? Buffer.alloc(0));
  if (!list || !(await links.keepsInside(list))) throw new NotAFileError(path);
  return list;
}

async function removalOf({ uploads }: RemovalList): Promise<Removal> {
  const removal = new Removal();
  const turns = new Turns();
  for (let at = 0; at < uploads.length; at += UPLOADS_PER_GROUP) {
    if (turns.isOver) await turns.next();
    removal.add(uploads.slice(at, at + UPLOADS_PER_GROUP));
  }
  return removal;
}

async function complete(store: StoreDirectory, path: string, head: RemovalHead, { ids, keyed, paths }: Removal): Promise<void> {
  const { segment } = head;
  store.presence.assertHere();
  const length = await rewrite(store, segment, ids);
  await store.idempotency.forget(segment, length, keyed);
  await eachOf(paths, (path) => store.disk.remove(store.at(path)));
  for (const directory of new Set(paths.map(dirname))) {
    await unlessAbsent(store.disk.syncDirectory(store.at(directory)));
    await store.removeEmptyDirectories(directory);
  }
  if (length === 0) await markEmptied(store, segment);
  await store.events.addRemoved(basename(path, REMOVAL_EXTENSION), encodeRemovedUploads(head, groupsIn(store, path)));
  // `assertHere` throws if a volume went away meanwhile: all on it looked removed, so the removal is completed later.
  store.presence.assertHere();
}

/** Reads the uploads of a removal list in `pending/`. */
async function* groupsIn(store: StoreDirectory, path: string): AsyncGenerator<RemovedUpload[]> {
  const file = await store.disk.open(path);
  try {
    let uploads: RemovedUpload[] = [];
    for await (const line of readLines(file, 0, Infinity, () => undefined)) {
      // The head of the list isn't an upload.
      const upload = decodeRemovedUpload(line);
      if (!upload || uploads.push(upload) < UPLOADS_PER_GROUP) continue;
      yield uploads;
      uploads = [];
    }
    yield uploads;
  } finally {
    await closeQuietly(file);
  }
}

async function rewrite(store: StoreDirectory, segment: string, ids: ReadonlySet<string>): Promise<number> {
  const { disk } = store;
  const directory = dirname(store.at(segment));
  // A crash may have left the copy of an earlier attempt.
  await disk.remove(store.pathBeside(segment));
  const source = await unlessAbsent(disk.open(store.at(segment)));
  if (!source) {
    // The segment is missing: an earlier version of the service removed it with its last line, perhaps not durably.
    await unlessAbsent(disk.syncDirectory(directory));
    return 0;
  }
  try {
    return await store.withCopy(segment, async (path) => {
      const { length, movedTo } = await writeCopy(disk, path, source, ids);
      store.presence.assertHere();
      await store.events.whileReplacing(segment, movedTo, async () => {
        await disk.rename(path, store.at(segment));
        if (length === 0) await removeEventEntry(store, segment);
        await disk.syncDirectory(directory);
      });
      return length;
    });
  } finally {
    await closeQuietly(source);
  }
}

/** Removes the event entry of a segment. Call it within a job of `events.jobs`. */
async function removeEventEntry({ events }: StoreDirectory, segment: string): Promise<void> {
  const id = basename(segment, '.ndjson');
  if (events.inFlight?.id === id) events.inFlight = undefined;
  await events.remove(id);
}

async function writeCopy(disk: Disk, path: string, source: DiskFile, ids: ReadonlySet<string>): Promise<Copy> {
  const copy = await disk.create(path);
  try {
    const copied = await copyLines(source, copy, ids);
    await copy.sync();
    return copied;
  } finally {
    await closeQuietly(copy);
  }
}

interface KeyedUpload {
  readonly uploadId: string;
  readonly scope: string;
}

interface Copy {
  readonly length: number;
  readonly movedTo: (position: number) => number;
}

function refuseForeignLine(): never {
  throw new Error('The segment has a long line that is not a line of the index: remove the line, then try again');
}

/** Rejects if the segment has a long line that isn't an index line, because `readLines` would omit the line. */
async function copyLines(source: DiskFile, copy: DiskFile, removed: ReadonlySet<string>): Promise<Copy> {
  let length = 0;
  const gaps: { readonly begin: number; length: number }[] = [];
  let begin = 0;
  let gathered: Buffer[] = [];
  let gatheredBytes = 0;
  const write = async () => {
    await copy.write(gathered, length);
    length += gatheredBytes;
    gathered = [];
    gatheredBytes = 0;
  };
  for await (const line of readLines(source, 0, Infinity, refuseForeignLine)) {
    const lineBegin = begin;
    begin += line.length + 1;
    if (removed.has((await idOf(line)) ?? '')) {
      const gap = gaps.at(-1);
      if (gap && gap.begin + gap.length === lineBegin) gap.length += line.length + 1;
      else gaps.push({ begin: lineBegin, length: line.length + 1 });
      continue;
    }
    gathered.push(Buffer.from(line), NEWLINE_BYTES);
    gatheredBytes += line.length + 1;
    if (gatheredBytes >= WRITE_BYTES) await write();
  }
  await write();
  const movedTo = (position: number) => gaps.reduce((moved, gap) => moved - Math.min(gap.length, Math.max(0, position - gap.begin)), position);
  return { length, movedTo };
}
