import { messageOf } from '../../../../common/error-message.js';
import type { ByteRange } from '../../../application/ports/stored-uploads.port.js';

export type { ByteRange };

export interface ReadObject {
  readonly bytes: Buffer;
  /**
   * The object's version, to which `replace` can limit a write. Different contents of an object have different
   * versions. Writing the same bytes again may give the same version.
   */
  readonly version: string;
  /** Time since the object was written, by the store's clock. */
  readonly ageMs: number;
}

export interface ListedObject {
  readonly key: string;
  readonly size: number;
  readonly ageMs: number;
}

const MIN_CLOCK_OFFSET_MS = 4 * 60_000;

/**
 * Returns `offsetMs`, the offset between a store's clock and this machine's, or 0 if it is less than four minutes. A
 * store's times are whole seconds and arrive late, so a small offset can't be measured.
 */
export const significantOffset = (offsetMs: number): number => (Math.abs(offsetMs) < MIN_CLOCK_OFFSET_MS ? 0 : offsetMs);

/** The bucket's time-out limits a whole write of up to this length. A longer one may take longer while bytes move. */
export const SHORT_BODY_BYTES = 1024 * 1024;

/**
 * The operations that the object-storage adapter needs from a store. Keys are relative to the bucket's prefix.
 *
 * Calls reject with errors of the store's SDK, or with an Error of the adapter, such as StoreSilentError after the
 * bucket's time-out. Listings, and iterators from `open`, throw their errors while they are iterated. After most
 * errors, the store may have carried out the operation, or may still do so later. A call repeats its request where that
 * is safe, and recognizes an object that its own earlier attempt wrote.
 */
export abstract class Bucket {
  /**
   * How far the store's clock is ahead of this machine's, in milliseconds. 0 if they differ by less than four minutes,
   * and before the store's first answer.
   */
  abstract get clockOffsetMs(): number;

  /**
   * The time by the store's clock, in milliseconds since 1970; before the store's first answer, this machine's time.
   * May be some seconds early.
   */
  abstract get storeTime(): number;

  /**
   * The present time for all that is stored, in milliseconds since 1970: this machine's time, or the store's if the
   * clocks differ by four minutes or more. So a machine with a wrong clock stores right times too.
   */
  get now(): number {
    return Date.now() + this.clockOffsetMs;
  }

  /** Creates an object. Resolves to its version, or to undefined if the key is taken. */
  abstract create(key: string, bytes: Uint8Array): Promise<string | undefined>;

  /**
   * Writes an object, or overwrites it; with `version`, only if the existing object has this version. Resolves to the
   * new version, or to undefined if nothing was written.
   */
  abstract replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined>;

  /**
   * Creates an object from bytes as they arrive, in parts, some of which are held in memory. The object becomes visible
   * when the bytes have ended. After a failure, removes the parts already sent as far as the store allows it, possibly
   * after the call has rejected.
   *
   * @throws ObjectExistsError if the key is taken; errors of `bytes`.
   */
  abstract upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;

  /** Reads a small object into memory; undefined if it is missing. */
  abstract read(key: string): Promise<ReadObject | undefined>;

  /**
   * Opens an object of any size; undefined if it is missing. A caller that stops reading early must end the iterator.
   *
   * @param range the bytes to read (default: all). It may go beyond the object's end: only the bytes that exist are
   *   read.
   */
  abstract open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined>;

  /** Lists the objects whose keys begin with a prefix, each once, in the byte order of their keys. */
  abstract list(prefix: string): AsyncIterable<ListedObject>;

  /** Like `list`, but starts after the key `after`. Undefined if the store can only list by prefix. */
  listAfter(_prefix: string, _after: string): AsyncIterable<ListedObject> | undefined {
    return undefined;
  }

  /** Lists the directories directly below a prefix, as keys with a `/` at the end. */
  abstract listDirectories(prefix: string): AsyncIterable<string>;

  /** Removes objects. Missing objects are no error. */
  abstract remove(keys: readonly string[]): Promise<void>;

  /**
   * Removes the parts of all unfinished uploads to a key, whichever process began them. In Azure, does nothing if an
   * object is at the key.
   */
  abstract removeParts(key: string): Promise<void>;

  /**
   * Checks that the store permits the service to read, list and remove objects, and to list and remove parts of
   * uploads. Doesn't check the right to write, which in Azure includes removing parts. Removes the object at `key`, in
   * Azure also parts of unfinished uploads to it.
   *
   * @throws MissingRightError if the store refuses one of these operations.
   */
  abstract checkRights(key: string): Promise<void>;

  abstract close(): void;
}

/**
 * Returns a function that says whether a key is greater, in byte order, than all keys that the function was called with
 * before. It drops repetitions: the listings of some stores repeat a key, or a page.
 */
export function newKeys(): (key: string) => boolean {
  let last: Buffer | undefined;
  return (key) => {
    const bytes = Buffer.from(key);
    if (last && Buffer.compare(bytes, last) <= 0) return false;
    last = bytes;
    return true;
  };
}

/** `upload` created nothing, because an object with the same key exists. */
export class ObjectExistsError extends Error {
  constructor(key: string) {
    super(`${key} exists already.`);
    this.name = new.target.name;
  }
}

/** The store doesn't permit an operation that the service needs. */
export class MissingRightError extends Error {
  constructor(right: string, cause: unknown) {
    super(`The store refused ${right}: ${messageOf(cause)}`, { cause });
    this.name = new.target.name;
  }
}

/**
 * Returns a function for `.catch()` that throws MissingRightError if `isRefusal` is true of the error, and otherwise
 * the error itself.
 */
export const missingRight =
  (right: string, isRefusal: (error: unknown) => boolean) =>
  (cause: unknown): never => {
    throw isRefusal(cause) ? new MissingRightError(right, cause) : cause;
  };

/** A call to the store took longer than its time limit, or the store neither accepted nor sent a byte for that long. */
export class StoreSilentError extends Error {
  constructor(timeoutMs: number) {
    super(`The store made no progress for ${timeoutMs} ms.`);
    this.name = new.target.name;
  }
}
