/** An object as it was read whole. */
export interface ReadObject {
  readonly bytes: Buffer;
  /** Another one for other bytes. The same bytes written again may have the same one. */
  readonly version: string;
  /** Milliseconds since it was written, by the store's clock. */
  readonly ageMs: number;
}

/** An object as a listing shows it. */
export interface ListedObject {
  readonly key: string;
  /** Bytes. */
  readonly size: number;
  /** Milliseconds since it was written, by the store's clock. */
  readonly ageMs: number;
}

const LEAST_CLOCK_OFFSET_MS = 4 * 60_000;

/** An offset between two clocks, in milliseconds; 0 below four minutes, as a store's times are whole seconds and arrive late. */
export const significantOffset = (offsetMs: number): number => (Math.abs(offsetMs) < LEAST_CLOCK_OFFSET_MS ? 0 : offsetMs);

/**
 * What the object-storage adapter asks of a store, and nothing more. Keys are relative to the bucket's prefix.
 *
 * Every call rejects with what the SDK throws, at the latest when the store made no progress for the bucket's time-out;
 * what it was to do may be done or not then, now or a little later. A call repeats what a store may be asked again, and
 * knows its own object when an earlier answer was lost.
 */
export abstract class Bucket {
  /**
   * How far the store's clock is ahead of this machine's, in milliseconds, as its last answers show (`significantOffset`);
   * 0 before the first.
   */
  abstract get clockOffsetMs(): number;

  /** Makes an object unless its key is taken; resolves to its version, undefined when the key was taken. */
  abstract create(key: string, bytes: Uint8Array): Promise<string | undefined>;

  /**
   * Writes an object whatever is there, or only in place of a version.
   *
   * @returns its version; undefined when another version is there, or none.
   */
  abstract replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined>;

  /**
   * Makes an object of bytes as they come, in parts; it is visible when they have ended. Holds some parts in memory.
   * Rejects with what `bytes` throws, and then, as with every failure, gives the parts back where the store allows.
   *
   * @throws ObjectExistsError
   */
  abstract upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;

  /** A small object; undefined where there is none. */
  abstract read(key: string): Promise<ReadObject | undefined>;

  /** An object of any size, piece by piece; undefined where there is none. Whoever stops early ends the iterator. */
  abstract open(key: string): Promise<AsyncIterable<Uint8Array> | undefined>;

  /** The objects whose keys begin so, in the order of their keys' bytes, page by page. */
  abstract list(prefix: string): AsyncIterable<ListedObject>;

  /** What stands before the next `/` in the keys that begin so, with the prefix and the `/`, each once. */
  abstract listDirectories(prefix: string): AsyncIterable<string>;

  /** Removes objects; also resolves where there are none. */
  abstract remove(keys: readonly string[]): Promise<void>;

  /** Gives back the parts of unfinished uploads to a key, of whichever process. */
  abstract removeParts(key: string): Promise<void>;

  /**
   * Resolves when the store allows all that the other calls ask of it, beside writing: to read, list and remove objects,
   * and to list and give back parts. Changes nothing but `key`, which is removed.
   *
   * @throws MissingRightError where the store says that it isn't allowed.
   */
  abstract checkRights(key: string): Promise<void>;

  /** Ends connections. */
  abstract close(): void;
}

/** An upload's key is taken. */
export class ObjectExistsError extends Error {
  constructor(key: string) {
    super(`${key} exists.`);
    this.name = new.target.name;
  }
}

/** The store refused something that the service needs. */
export class MissingRightError extends Error {
  /** @param right as the store's administrator knows it, such as `s3:ListBucket`. */
  constructor(right: string, cause: unknown) {
    super(`The store refused ${right}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = new.target.name;
  }
}

/**
 * For `.catch()`: names the right that was refused; another error passes through.
 *
 * @throws MissingRightError
 */
export const missingRight =
  (right: string, isRefusal: (error: unknown) => boolean) =>
  (cause: unknown): never => {
    throw isRefusal(cause) ? new MissingRightError(right, cause) : cause;
  };

/** The store was asked, and neither took nor sent anything for the time-out. */
export class StoreSilentError extends Error {
  /** @param timeoutMs milliseconds */
  constructor(timeoutMs: number) {
    super(`The store made no progress for ${timeoutMs} ms.`);
    this.name = new.target.name;
  }
}
