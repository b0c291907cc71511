/** A store that collects index lines, and writes those that wait at the same time together. */
export interface LineQueue {
  /** The number of index lines that wait to be written. Lines that are being written don't count. */
  readonly waitingLines: number;
}
