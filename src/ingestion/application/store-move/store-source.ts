export interface SourceLine {
  readonly segment: string;
  /** The number of the line in its segment, from 1. Lines that are far too long aren't counted. */
  readonly number: number;
  /**
   * The line with its newline. Undefined in an extra item after the segment's last line, if a part of the segment can't
   * be read as index lines: an incomplete last line, or a line that is far too long.
   */
  readonly bytes: Buffer | undefined;
}

/** Reads the store whose uploads a move copies. Never writes. A service may be running on the store. */
export interface StoreSource {
  /** Identifies the store, so that an interrupted move can be continued. */
  readonly storeId: string;

  /** Yields the lines of all segments, one segment after the other. Rejects with an error of the store. */
  lines(): AsyncIterable<SourceLine>;

  /**
   * Opens the file at a path relative to the store's root; undefined if it is missing. A caller that stops early must
   * end the iterator.
   *
   * @throws an error of the store, including while the file is read.
   */
  openContent(path: string): Promise<AsyncIterable<Uint8Array> | undefined>;

  hasContent(path: string): Promise<boolean>;
}
