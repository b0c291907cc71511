/**
 * The result of one write of index lines: either the lines of a group commit, or the only line of a segment (a file of
 * index lines) that has a single upload. A storage adapter passes it to the callback `onFlush` of its options.
 */
export interface IndexFlush {
  readonly lines: number;
  readonly seconds: number;
  readonly ok: boolean;
}
