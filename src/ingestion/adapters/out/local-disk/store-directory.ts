import { basename, dirname, join } from 'node:path';
import type { DataDirectoryLock } from '../../../../common/data-directory/data-directory-lock.js';
import { hasCode } from '../../../../common/error-code.js';
import { MIB } from '../../../../common/sizes.js';
import { OtherVolumeError } from './disk-error.js';
import { ContentJournals } from './content-journals.js';
import { Wakeup } from '../../../../common/wakeup.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { contentDirectory, linesDirectory } from '../../../domain/layout.js';
import { UPLOAD_KINDS } from '../../../domain/upload.js';
import type { Disk } from './disk.js';
import { DurableDirectories } from './durable-directories.js';
import { EventEntries, EVENTS } from './event-outbox/event-entries.js';
import { IdempotencyKeys } from './idempotency-keys.js';
import { PendingMarkers } from './pending-markers.js';
import { SpaceReserve } from './space-reserve.js';
import { StorePresence } from './store-presence.js';
import { type OpenSegment, Segments } from './stored-uploads/segments.js';

const COPIED_BYTES = MIB;
const COPY_EXTENSION = '.rewritten';

/** The directories that every store has, relative to its root. Each may be a volume of its own. */
export const STORE_PARTS = [...UPLOAD_KINDS.flatMap((kind) => [linesDirectory(kind), contentDirectory(kind)]), 'staging', 'pending'];

export const POSSIBLE_VOLUMES = [...STORE_PARTS, EVENTS];

/** The part of the store that contains a path in `uploads/` or `files/`. Both are relative to the store's root. */
export const partOf = (path: string): string => path.split('/', 2).join('/');

/** The path of the file whose new version has a path as formed by `StoreDirectory.pathBeside`; undefined for others. */
export function pathOfCopied(path: string): string | undefined {
  const name = basename(path);
  return name.startsWith('.') && name.endsWith(COPY_EXTENSION) ? `${dirname(path)}/${name.slice(1, -COPY_EXTENSION.length)}` : undefined;
}

/** The root directory of a store, with the services that its operations share. */
export class StoreDirectory {
  readonly presence: StorePresence;
  readonly directories: DurableDirectories;
  readonly parts: readonly string[];
  readonly markers: PendingMarkers;
  readonly journals: ContentJournals;
  readonly idempotency: IdempotencyKeys;
  readonly events: EventEntries;
  readonly reserve: SpaceReserve;
  /** The segments that this process still writes to, by their paths relative to the store's root. */
  readonly openSegments = new Map<string, OpenSegment>();
  readonly segments = new Segments(this);
  /** Absolute paths of parts to which no file in `staging/` can be renamed: other mounts of the same device. */
  private readonly otherMounts = new Set<string>();

  constructor(
    readonly disk: Disk,
    /** Absolute path of the store's root directory. */
    readonly root: string,
    readonly logger: StorageLogger,
    maxJournalBytes: number,
    lock: DataDirectoryLock,
    news = new Wakeup(),
  ) {
    this.parts = STORE_PARTS.map((name) => this.at(name));
    this.presence = new StorePresence(disk, root, this.parts, lock);
    this.directories = new DurableDirectories(disk, root, this.presence);
    this.markers = new PendingMarkers(disk, this.directories, this.presence, this.at('pending'));
    this.journals = new ContentJournals(this, logger, this.at('pending'), maxJournalBytes);
    this.idempotency = new IdempotencyKeys(this);
    this.events = new EventEntries(disk, this.directories, this.presence, logger, root, news);
    this.reserve = new SpaceReserve(disk, ['', ...POSSIBLE_VOLUMES].map((path) => this.at(path)));
  }

  at(...path: string[]): string {
    return join(this.root, ...path);
  }

  /**
   * Creates the file of an upload, not durably yet.
   *
   * @param contentPath the file's path relative to the store's root. The file's directory must exist.
   * @throws OtherVolumeError if another volume is mounted below `files/kind=...`, because the loss of that volume would
   *   go unnoticed; an error of the file system. After an error, the file may exist, empty or incomplete.
   */
  makeContent(contentPath: string, bytes: Uint8Array): Promise<void> {
    return this.onVolumeOf(contentPath, (path, device) => this.disk.createWith(path, bytes, device));
  }

  /**
   * Creates the file of an upload, or replaces it: until the new file is in place, readers find the old one. It isn't
   * durable yet.
   *
   * @param contentPath the file's path relative to the store's root. The file's directory must exist.
   * @throws OtherVolumeError as `makeContent` does; an error of the file system.
   */
  replaceContent(contentPath: string, bytes: Uint8Array): Promise<void> {
    return this.onVolumeOf(contentPath, (path, device) =>
      this.withCopy(contentPath, async (copy) => {
        await this.disk.createWith(copy, bytes, device);
        await this.disk.rename(copy, path);
      }),
    );
  }

  /**
   * Calls an action that writes a new version of a file to an absolute path, and then renames it to the file's own
   * path. The new version is in `staging/`, or beside the file if `staging/` is on another volume or mount. If an
   * attempt in `staging/` rejects with `EXDEV`, calls the action once more with a path beside the file.
   *
   * @param path the path of the file, relative to the store's root.
   */
  async withCopy<T>(path: string, action: (copy: string) => Promise<T>): Promise<T> {
    const part = this.partOf(path);
    const isOneVolume = this.presence.deviceOf(part) === this.presence.deviceOf(this.at('staging'));
    const isStaged = isOneVolume && !this.otherMounts.has(part);
    const copy = isStaged ? this.at('staging', `${basename(path)}${COPY_EXTENSION}`) : this.pathBeside(path);
    try {
      await this.disk.remove(copy);
      return await action(copy);
    } catch (error) {
      await this.disk.remove(copy).catch(() => undefined);
      if (!isStaged || !hasCode(error, 'EXDEV')) throw error;
      this.otherMounts.add(part);
      return this.withCopy(path, action);
    }
  }

  /** The absolute path for a new version beside a file. A crash may leave a version there. */
  pathBeside(path: string): string {
    return this.at(dirname(path), `.${basename(path)}${COPY_EXTENSION}`);
  }

  /**
   * Moves a file in `staging/` to its final path, in place of a file that is there. Copies it durably if `staging/` is
   * on another volume or mount.
   *
   * @param contentPath relative to the store's root, like `staged`. Its directory must exist.
   * @throws OtherVolumeError as `makeContent` does. After any other error of the file system, part or all of the file
   *   may be at `contentPath`.
   */
  moveContent(staged: string, contentPath: string): Promise<void> {
    const path = this.at(contentPath);
    return this.disk.rename(this.at(staged), path).catch(async (error: unknown) => {
      if (!hasCode(error, 'EXDEV')) throw error;
      this.presence.assertOnVolumeOf(this.partOf(contentPath), dirname(path));
      await this.disk.remove(path);
      await this.copy(this.at(staged), path);
      await this.disk.remove(this.at(staged));
    });
  }

  /** Removes a file so that it doesn't reappear after a power cut. Also resolves if the file is missing. */
  async removeDurably(path: string): Promise<void> {
    const absolute = this.at(path);
    await this.disk.remove(absolute);
    await this.directories.sync(dirname(absolute)).catch((error: unknown) => {
      if (!hasCode(error, 'ENOENT')) throw error;
    });
  }

  /**
   * Removes a directory and its parents below the part of the store, as far as they are empty: their names contain a
   * day or a customer, and would reveal that there were uploads. There must be only one call at a time.
   */
  async removeEmptyDirectories(directory: string): Promise<void> {
    // Keeps the first two levels, such as `files/kind=historical`, which every store has.
    for (let path = directory; path.split('/').length > 2; path = dirname(path)) await this.directories.removeEmpty(this.at(path));
  }

  /**
   * Tries an action that recovery repeats at the next boot if it fails now. Never rejects: logs the failure, unless the
   * store goes away. Does nothing while the store is away.
   *
   * @param what the action, as the subject of the warning about its failure.
   * @param parts absolute paths of the store's parts that the action changes. Default: all that every store has.
   */
  async attempt(what: string, action: () => Promise<void>, parts = this.parts): Promise<void> {
    try {
      this.presence.assertHere(parts);
      await action();
    } catch (error) {
      if (!this.presence.isAway) this.logger.warn(`${what} failed; retrying at the next boot.`, error);
    }
  }

  /** Like the function `partOf`, but returns an absolute path. */
  partOf(path: string): string {
    return this.at(partOf(path));
  }

  private onVolumeOf(contentPath: string, action: (path: string, device: bigint | undefined) => Promise<void>): Promise<void> {
    const part = this.partOf(contentPath);
    const path = this.at(contentPath);
    return action(path, this.presence.deviceOf(part)).catch((error: unknown) => {
      throw hasCode(error, 'EXDEV') ? new OtherVolumeError(path, part) : error;
    });
  }

  private async copy(from: string, to: string): Promise<void> {
    const source = await this.disk.open(from);
    try {
      const target = await this.disk.create(to);
      try {
        const bytes = Buffer.allocUnsafe(COPIED_BYTES);
        for (let at = 0, read; (read = await source.read(bytes, at)) > 0; at += read) await target.write([bytes.subarray(0, read)], at);
        await target.sync();
      } finally {
        await target.close();
      }
    } finally {
      await source.close();
    }
  }
}
