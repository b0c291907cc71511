/** The result of one group commit of index lines. An adapter passes it to the `onFlush` of its options. */
export interface IndexFlush {
  readonly lines: number;
  readonly seconds: number;
  readonly ok: boolean;
}
