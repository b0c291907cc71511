import { hasCode } from '../../../../common/error-code.js';

/** The result of an action on a path; undefined if the action rejects with `ENOENT` or `ENOTDIR`. */
export async function unlessAbsent<T>(action: Promise<T>): Promise<T | undefined> {
  try {
    return await action;
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/** The error when a file was moved, replaced or removed while the service wrote to it. */
export class FileRemovedError extends Error {
  constructor(path: string) {
    super(`${path} was removed or replaced.`);
    this.name = new.target.name;
  }
}

/**
 * The store, or a volume it uses, is missing, replaced, unreadable or no longer writable. Also thrown when the index of
 * idempotency keys is closed. Nothing may be written until the store is opened again.
 */
export class StoreAwayError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
  }
}

/**
 * The error when a file system may have lost writes, but it isn't known of which files. Any file that was written on
 * that file system since the last sync may be incomplete, even if a later sync of the file succeeds.
 */
export class LostWritesError extends Error {
  constructor(cause?: unknown) {
    super('A file system could not write everything to its disk.', { cause });
    this.name = new.target.name;
  }
}

/**
 * The error when a path isn't on the volume of its part of the store (such as `files/kind=historical`), usually because
 * another volume is mounted in between.
 */
export class OtherVolumeError extends Error {
  constructor(path: string, volume: string) {
    super(`${path} is on another volume than ${volume}: unmount what is mounted between them, or mount it at the latter`);
    this.name = new.target.name;
  }
}

/** The error when a path names something other than the regular file of the store that it should name. */
export class NotAFileError extends Error {
  constructor(path: string) {
    super(`${path} is not a regular file.`);
    this.name = new.target.name;
  }
}

/**
 * For `.catch()` of the removal of a file. Throws NotAFileError for `EISDIR` and `EPERM`, one of which a system reports
 * if the path is a directory's. Throws any other error unchanged.
 */
export const asNotAFile =
  (path: string) =>
  (error: unknown): never => {
    throw hasCode(error, 'EISDIR', 'EPERM') ? new NotAFileError(path) : error;
  };
