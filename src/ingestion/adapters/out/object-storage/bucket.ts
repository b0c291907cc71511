import { messageOf } from '../../../../common/error-message.js';
import { MIB } from '../../../../common/sizes.js';
import type { ByteRange } from '../../../application/ports/stored-uploads.port.js';

export type { ByteRange };

/** An object that was read whole. */
export interface ReadObject {
  readonly bytes: Buffer;
  /**
   * Identifies the object's content, so that `replace` can overwrite only this version. Different bytes have different
   * versions. Writing the same bytes again may give the same version.
   */
  readonly version: string;
  /** Milliseconds from the latest write of the object to the store's answer, by the store's clock. */
  readonly ageMs: number;
}

/** An object that a listing found. */
export interface ListedObject {
  readonly key: string;
  /** The length of the object, in bytes. */
  readonly size: number;
  /** Milliseconds from the latest write of the object to the store's answer, by the store's clock. */
  readonly ageMs: number;
}

const MIN_CLOCK_OFFSET_MS = 4 * 60_000;

/**
 * Returns `offsetMs`, the offset between the store's clock and this machine's in milliseconds, or 0 if it is less than
 * four minutes in either direction. A store's times are whole seconds and arrive late, so a small offset can't be
 * measured exactly.
 */
export const significantOffset = (offsetMs: number): number => (Math.abs(offsetMs) < MIN_CLOCK_OFFSET_MS ? 0 : offsetMs);

/**
 * A request that writes a whole object of at most this many bytes must be sent and answered within the bucket's
 * time-out. If the object is longer, the request may take longer, as long as bytes move.
 */
export const SHORT_BODY_BYTES = MIB;

/**
 * The operations that the object-storage adapter needs from a store, and no others. Keys are relative to the bucket's
 * prefix.
 *
 * Calls reject with errors of the store's SDK, or with an Error of the adapter, such as ObjectExistsError,
 * MissingRightError or StoreSilentError; `upload` also with errors of its bytes. A call to a store that makes no
 * progress rejects soon after the bucket's time-out. Listings, and iterators from `open`, throw their errors while they
 * are iterated. After most errors, the store may have carried out the operation or not, and may still carry it out
 * later. A call repeats its request where that is safe. If the answer to the first request was lost, the repeated
 * request may be refused because of the object that the first one wrote. The call then recognizes this object as its
 * own, unless another call has replaced or removed it.
 */
export abstract class Bucket {
  /**
   * How many milliseconds the store's clock is ahead of this machine's, by the store's latest answer. Negative if it is
   * behind. 0 if the clocks differ by less than four minutes, and before the first answer.
   */
  abstract get clockOffsetMs(): number;

  /**
   * The time by the store's clock, in milliseconds since 1970, according to the store's latest answer; this machine's
   * time before the first answer. May be some seconds behind the store's clock, because a store's times are whole
   * seconds and arrive late.
   */
  abstract get storeTime(): number;

  /**
   * The present time for times that are stored, in milliseconds since 1970. It is the store's time if, according to the
   * store's latest answer, the two clocks differ by four minutes or more; otherwise this machine's. So a machine whose
   * clock is wrong by more stores right times too, once the store has answered.
   */
  get now(): number {
    return Date.now() + this.clockOffsetMs;
  }

  /**
   * Creates an object unless one with the same key exists. Resolves to the new object's version; to undefined if the
   * key is taken, and then nothing was written.
   */
  abstract create(key: string, bytes: Uint8Array): Promise<string | undefined>;

  /**
   * Writes an object. With `version`, writes only if the object at the key still has this version.
   *
   * @returns the new version; undefined if nothing was written, because the object has another version or is missing.
   */
  abstract replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined>;

  /**
   * Creates an object from bytes as they arrive, in parts, or in one request if all bytes fit into one part. The object
   * becomes visible when the bytes have ended. Holds some parts in memory. Rejects with the errors of `bytes`. After
   * any failure, tries to remove the parts that were already sent. The removal may end, or fail, only after the call
   * has rejected.
   *
   * @throws ObjectExistsError if the key is taken.
   */
  abstract upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;

  /**
   * Reads a small object; undefined if the object is missing. Holds the whole object in memory. The longest objects
   * that the service reads with it have about 64 MiB, or contain one longer index line.
   */
  abstract read(key: string): Promise<ReadObject | undefined>;

  /**
   * Opens an object of any size, to be read piece by piece; undefined if the object is missing. A caller that stops
   * early must end the iterator. If the caller pauses for longer than the bucket's time-out, reading may fail.
   *
   * @param range the bytes to read; the whole object if undefined. A range may go beyond the object's end: only the
   *   bytes that exist are read.
   */
  abstract open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined>;

  /**
   * Lists the objects whose keys begin with a prefix, in the byte order of their keys, page by page. Lists each object
   * once. An object that is created or removed meanwhile may or may not be listed.
   */
  abstract list(prefix: string): AsyncIterable<ListedObject>;

  /**
   * Like `list`, but leaves out the objects whose keys are `after` or precede it in byte order, without requesting
   * their names. Returns undefined if the store can only list by prefix, as this default implementation does. To list
   * the names of a time span (`listNamed`) may then take dozens of requests.
   */
  listAfter(_prefix: string, _after: string): AsyncIterable<ListedObject> | undefined {
    return undefined;
  }

  /** Lists the directories directly below a prefix, each once, as keys that end with the first `/` after the prefix. */
  abstract listDirectories(prefix: string): AsyncIterable<string>;

  /** Removes objects. Objects that are already missing are no error. */
  abstract remove(keys: readonly string[]): Promise<void>;

  /**
   * Removes the parts of all unfinished uploads to a key, whichever process began these uploads. In Azure, does nothing
   * if an object is at the key; otherwise, if there are parts, creates an empty object at the key and removes it again.
   */
  abstract removeParts(key: string): Promise<void>;

  /**
   * Checks that the store permits the service to read, list and remove objects, and to list and remove parts of
   * uploads. Doesn't check the right to write. Doesn't check the right to remove parts either if that is part of the
   * right to write, as in Azure. Removes the object at `key`, in Azure also parts of unfinished uploads to it, and
   * changes nothing else.
   *
   * @throws MissingRightError if the store refuses one of these operations.
   */
  abstract checkRights(key: string): Promise<void>;

  /**
   * Closes the bucket's connections, and ends the removal of parts in the background. Does nothing in Azure, where the
   * whole process shares its connections.
   */
  abstract close(): void;
}

/**
 * Returns a function that says whether a key is new in a listing in byte order: whether it is greater than all keys
 * before it. Call that function with each key, in the order of the listing. It is needed because the listings of some
 * stores repeat a key, or a page.
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

/**
 * Returns a function that is true for each directory the first time: a store may list one again on its next page, in any
 * order. Holds all of them, unlike `newKeys`.
 */
export function newDirectories(): (directory: string) => boolean {
  const listed = new Set<string>();
  return (directory) => listed.size < listed.add(directory).size;
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
  /** @param right the missing right, such as `s3:ListBucket`, or the operation that needs the right. */
  constructor(right: string, cause: unknown) {
    super(`The store refused ${right}: ${messageOf(cause)}`, { cause });
    this.name = new.target.name;
  }
}

/**
 * Returns a function for `.catch()`. The function throws MissingRightError if `isRefusal` says that an error is the
 * store's refusal of a right. It throws any other error unchanged.
 */
export const missingRight =
  (right: string, isRefusal: (error: unknown) => boolean) =>
  (cause: unknown): never => {
    throw isRefusal(cause) ? new MissingRightError(right, cause) : cause;
  };

/** A call to the store took longer than its time limit, or the store neither accepted nor sent a byte for that long. */
export class StoreSilentError extends Error {
  /** @param timeoutMs the time limit, in milliseconds. */
  constructor(timeoutMs: number) {
    super(`The store made no progress for ${timeoutMs} ms.`);
    this.name = new.target.name;
  }
}
