import { basename, dirname } from 'node:path';
import { MINUTE_MS } from '../../../../../common/durations.js';
import { hasCode } from '../../../../../common/error-code.js';
import { PeriodicJob } from '../../../../../common/periodic-job.js';
import { LinkCheck } from '../link-check.js';
import type { StoreDirectory } from '../store-directory.js';

const EMPTIED_EXTENSION = '.emptied';
/**
 * How long an empty segment is kept at least, and the pause between two runs that remove such segments. A reader such
 * as DuckDB lists the segments first, and opens each when its turn comes. Its query fails if a listed segment is gone
 * by then, so empty ones are removed together, once in a while.
 */
const KEPT_MS = 10 * MINUTE_MS;

/**
 * Marks a segment (a file of index lines) whose last line was removed, so that its empty file is removed later.
 * Resolves when the marker is durable. Safe to repeat.
 *
 * @param segment path of the segment, relative to the store's root.
 */
export async function markEmptied({ markers }: StoreDirectory, segment: string): Promise<void> {
  await markers.add(basename(segment, '.ndjson') + EMPTIED_EXTENSION, { segment, emptied_at: Date.now() }).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error;
    // An earlier attempt has added the marker, but perhaps failed to make it durable.
    return markers.sync();
  });
}

/**
 * Removes the segments that were emptied at least ten minutes ago, their directories if these are empty, and their
 * markers. If that fails for one, logs a warning and leaves its marker for a later call. There must be only one call at
 * a time, and no turn of a removal of uploads meanwhile.
 *
 * @param names the names of the markers in `pending/`.
 * @param signal ends the work before the next segment.
 * @throws StoreAwayError, or the error of a step, if the store is away.
 */
export async function removeEmptied(store: StoreDirectory, names: readonly string[], signal?: AbortSignal): Promise<void> {
  const links = new LinkCheck(store);
  for (const name of names) {
    if (signal?.aborted) return;
    try {
      const marker = await store.markers.read(name);
      if (!marker || 'content_path' in marker || marker.emptied_at === undefined || !(await links.staysInside(marker))) continue;
      // Compares the absolute age, because a clock that was set back must not keep the file for very long.
      if (Math.abs(Date.now() - marker.emptied_at) >= KEPT_MS) await remove(store, name, marker.segment);
    } catch (error) {
      if (store.presence.isAway) throw error;
      store.logger.warn(`Removing the empty segment of ${store.at('pending', name)} failed; retrying in ten minutes.`, error);
    }
  }
}

async function remove(store: StoreDirectory, marker: string, segment: string): Promise<void> {
  if ((await store.disk.plainFileSize(store.at(segment))) === 0) await store.removeDurably(segment);
  await store.removeEmptyDirectories(dirname(segment));
  // `assertHere` throws if a volume went away in the meantime: then the segment only looked missing.
  store.presence.assertHere();
  await store.markers.remove(marker);
}

/** Removes the empty files of segments every ten minutes while the store is open. */
export class EmptiedSegments {
  private readonly job = new PeriodicJob(() => this.run(), () => KEPT_MS);

  /** @param inTurn calls `work` when no turn of a removal of uploads is running. */
  constructor(
    private readonly store: StoreDirectory,
    private readonly inTurn: (work: () => Promise<void>) => Promise<void>,
  ) {
    this.job.start(KEPT_MS);
  }

  close(): Promise<void> {
    return this.job.close();
  }

  private async run(): Promise<void> {
    const work = async () => {
      this.store.presence.assertHere();
      const names = await this.store.markers.ids();
      await removeEmptied(this.store, names.filter((name) => name.endsWith(EMPTIED_EXTENSION)), this.job.signal);
    };
    await this.inTurn(work).catch((error: unknown) => {
      if (!this.store.presence.isAway && !this.job.signal.aborted) this.store.logger.warn('Removing empty segments failed; retrying in ten minutes.', error);
    });
  }
}
