/** Whether an error of the file system has one of these codes, `ENOENT` for instance. */
export const hasCode = (error: unknown, ...codes: string[]): boolean =>
  error instanceof Error && 'code' in error && codes.includes(String(error.code));

/** What an action gives; undefined where what it is about isn't there. */
export async function unlessAbsent<T>(action: Promise<T>): Promise<T | undefined> {
  try {
    return await action;
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/** Somebody moved or removed a file while it was written: what is flushed to it, nobody finds. */
export class FileRemovedError extends Error {
  constructor(path: string) {
    super(`${path} was removed or replaced.`);
    this.name = new.target.name;
  }
}

/** The store, or a volume in use by it, is gone, replaced or no longer writable. Nothing may be written until it is opened again. */
export class StoreAwayError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
  }
}

/** A volume is mounted below a directory whose files must all be on its own volume. */
export class OtherVolumeError extends Error {
  constructor(path: string, volume: string) {
    super(`${path} is on another volume than ${volume}: unmount what is mounted between them, or mount it at the latter`);
    this.name = new.target.name;
  }
}

/** What should be a file of the store is a directory, a FIFO, a socket, a device, or a link. */
export class NotAFileError extends Error {
  constructor(path: string) {
    super(`${path} is not a regular file.`);
    this.name = new.target.name;
  }
}
