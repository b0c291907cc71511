/**
 * The result of one group commit of index lines. A storage adapter passes it to the callback `onFlush` of its options.
 */
export interface IndexFlush {
  readonly lines: number;
  readonly seconds: number;
  readonly ok: boolean;
}
