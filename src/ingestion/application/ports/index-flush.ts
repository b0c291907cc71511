/**
 * The result of one write of index lines: those of a group commit, or the line of an upload that has a segment of its
 * own. A storage adapter passes it to the callback `onFlush` of its options.
 */
export interface IndexFlush {
  readonly lines: number;
  readonly seconds: number;
  readonly ok: boolean;
}
