import type { ByteRange } from '../../../application/ports/stored-uploads.port.js';

export type { ByteRange };

/** An object that was read whole. */
export interface ReadObject {
  readonly bytes: Buffer;
  /**
   * The object's version, by which `replace` recognizes it. Other bytes have another version. Writing the same bytes
   * again may give the same version.
   */
  readonly version: string;
  /** Milliseconds since the object was written, by the store's clock. */
  readonly ageMs: number;
}

/** An object that a listing found. */
export interface ListedObject {
  readonly key: string;
  /** The length of the object, in bytes. */
  readonly size: number;
  /** Milliseconds since the object was written, by the store's clock. */
  readonly ageMs: number;
}

const LEAST_CLOCK_OFFSET_MS = 4 * 60_000;

/**
 * Returns `offsetMs`, the offset between the store's clock and this machine's in milliseconds, or 0 if it is below four
 * minutes. A small offset can't be measured, because a store's times are whole seconds and arrive late.
 */
export const significantOffset = (offsetMs: number): number => (Math.abs(offsetMs) < LEAST_CLOCK_OFFSET_MS ? 0 : offsetMs);

/**
 * The operations that the object-storage adapter needs from a store, and no others. Keys are relative to the bucket's
 * prefix.
 *
 * Every call that fails rejects with the error of the SDK, at the latest when the store has made no progress for the
 * bucket's time-out. After an error, the store may have carried out the operation or not, and may still carry it out a
 * little later. A call repeats its request where that is safe. If the answer to the first request was lost, the
 * repeated request may be refused because of the object that the first one wrote. The call recognizes this object as
 * its own.
 */
export abstract class Bucket {
  /**
   * How far the store's clock is ahead of this machine's, in milliseconds, by its latest answers (`significantOffset`);
   * 0 before the first answer.
   */
  abstract get clockOffsetMs(): number;

  /**
   * The time by the store's clock, in milliseconds since 1970, according to the store's latest answers. May be some
   * seconds behind the store's clock, because a store's times are whole seconds and arrive late. Before the first
   * answer, this machine's time.
   */
  abstract get storeTime(): number;

  /** Creates an object unless its key is taken. Resolves to the object's version; undefined if the key is taken. */
  abstract create(key: string, bytes: Uint8Array): Promise<string | undefined>;

  /**
   * Writes an object, either unconditionally or only in place of a version.
   *
   * @returns the new version; undefined if another version is there, or none.
   */
  abstract replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined>;

  /**
   * Creates an object from bytes as they arrive, in parts. The object becomes visible when the bytes have ended. Holds
   * some parts in memory. Rejects with the errors of `bytes`. After any failure, removes the parts as far as the store
   * allows it.
   *
   * @throws ObjectExistsError if the key is taken.
   */
  abstract upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;

  /** Reads a small object; undefined if the object is missing. */
  abstract read(key: string): Promise<ReadObject | undefined>;

  /**
   * Opens an object of any size, to be read piece by piece; undefined if the object is missing. A caller that stops
   * early must end the iterator.
   *
   * @param range the part to read; the whole object without it. Bytes that the object doesn't have are left out.
   */
  abstract open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined>;

  /** Lists the objects whose keys begin with a prefix, in the byte order of their keys, page by page. */
  abstract list(prefix: string): AsyncIterable<ListedObject>;

  /** Lists the directories directly below a prefix, each once, as keys up to and including the next `/`. */
  abstract listDirectories(prefix: string): AsyncIterable<string>;

  /** Removes objects. Also resolves if they are missing. */
  abstract remove(keys: readonly string[]): Promise<void>;

  /** Removes the parts of unfinished uploads to a key, whichever process began them. */
  abstract removeParts(key: string): Promise<void>;

  /**
   * Resolves if the store permits everything that the other calls need, except writing: to read, list and remove
   * objects, and to list and remove parts. Changes nothing but the object at `key`, which is removed.
   *
   * @throws MissingRightError if the store refuses one of these operations.
   */
  abstract checkRights(key: string): Promise<void>;

  /** Closes connections. */
  abstract close(): void;
}

/** `upload` created nothing, because an object with the same key exists. */
export class ObjectExistsError extends Error {
  constructor(key: string) {
    super(`${key} exists.`);
    this.name = new.target.name;
  }
}

/** The store doesn't permit an operation that the service needs. */
export class MissingRightError extends Error {
  /** @param right the name of the missing right as the store's administrator knows it, such as `s3:ListBucket`. */
  constructor(right: string, cause: unknown) {
    super(`The store refused ${right}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = new.target.name;
  }
}

/**
 * Returns a function for `.catch()`. The function throws MissingRightError if `isRefusal` says that the error is the
 * store's refusal of a right, and any other error unchanged.
 */
export const missingRight =
  (right: string, isRefusal: (error: unknown) => boolean) =>
  (cause: unknown): never => {
    throw isRefusal(cause) ? new MissingRightError(right, cause) : cause;
  };

/** The store neither accepted nor sent a byte until the time-out. */
export class StoreSilentError extends Error {
  /** @param timeoutMs the time-out, in milliseconds. */
  constructor(timeoutMs: number) {
    super(`The store made no progress for ${timeoutMs} ms.`);
    this.name = new.target.name;
  }
}
