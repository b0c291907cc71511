/** Whether an error of the file system has one of these codes, for example `ENOENT`. */
export const hasCode = (error: unknown, ...codes: string[]): boolean =>
  error instanceof Error && 'code' in error && codes.includes(String(error.code));

/**
 * Resolves to the result of an action on a path; to undefined if the action fails because the path is missing, or a
 * directory above it is missing or isn't a directory.
 */
export async function unlessAbsent<T>(action: Promise<T>): Promise<T | undefined> {
  try {
    return await action;
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/**
 * The error when a file was moved or removed while the service wrote to it, so that its path doesn't lead to the data
 * that was written.
 */
export class FileRemovedError extends Error {
  constructor(path: string) {
    super(`${path} was removed or replaced.`);
    this.name = new.target.name;
  }
}

/**
 * The error when the store, or a volume it uses, is missing, replaced, unreadable or no longer writable. Nothing may be
 * written until the store is opened again. The index of idempotency keys also throws it once it is closed.
 */
export class StoreAwayError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
  }
}

/**
 * The error when a file system may have lost writes, but it isn't known of which files. Any file that was written there
 * since the last sync may be incomplete, even if a later sync of it succeeds.
 */
export class LostWritesError extends Error {
  constructor(cause?: unknown) {
    super('A file system could not write everything to its disk.', { cause });
    this.name = new.target.name;
  }
}

/**
 * The error when a path isn't on the same volume as the directory that it is below, although it must be: usually
 * because another volume is mounted in between.
 */
export class OtherVolumeError extends Error {
  constructor(path: string, volume: string) {
    super(`${path} is on another volume than ${volume}: unmount what is mounted between them, or mount it at the latter`);
    this.name = new.target.name;
  }
}

/**
 * The error when a path doesn't name the file of the store that it should name. For example, it names a directory, a
 * FIFO, or a file that is far too long or has other contents; or it leads out of the store.
 */
export class NotAFileError extends Error {
  constructor(path: string) {
    super(`${path} is not a regular file.`);
    this.name = new.target.name;
  }
}

/**
 * Returns a function for `.catch()` of the removal of a file. The function throws NotAFileError for `EISDIR` and
 * `EPERM`: a system reports one of them if the path names a directory. It throws any other error unchanged.
 */
export const asNotAFile =
  (path: string) =>
  (error: unknown): never => {
    throw hasCode(error, 'EISDIR', 'EPERM') ? new NotAFileError(path) : error;
  };
