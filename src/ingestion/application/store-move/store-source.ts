/** An index line in a segment (a file of index lines) of the store that is moved. */
export interface SourceLine {
  /** The path of the segment, relative to the store's root. */
  readonly segment: string;
  /** The position of the line in its segment, counted from 1. Lines that are far too long aren't counted. */
  readonly number: number;
  /**
   * The line with its newline. Undefined in an extra item after the segment's last line, if a part of the segment can't
   * be read as index lines: an incomplete last line, or a line that is far too long.
   */
  readonly bytes: Buffer | undefined;
}

/**
 * The operations that a move needs from the store whose uploads it copies. None of them writes to that store. A service
 * may be running on the store at the same time.
 */
export interface StoreSource {
  /** Identifies the store, so that an interrupted move can be continued. */
  readonly storeId: string;

  /** Yields the lines of all segments, one segment after the other. Rejects with an error of the store. */
  lines(): AsyncIterable<SourceLine>;

  /**
   * Opens the file of an upload. Resolves to undefined if the file is missing. A caller that stops early must end the
   * iterator.
   *
   * @param path the file's path relative to the store's root.
   * @throws an error of the store, also while the file is read.
   */
  openContent(path: string): Promise<AsyncIterable<Uint8Array> | undefined>;

  /** Whether the store has a file at a path, relative to its root. */
  hasContent(path: string): Promise<boolean>;
}
