/** Bounds for the times of a segment's lines. They stay correct when lines are removed. */
export class LineTimes {
  /** The latest `received_at` of a line, in milliseconds since 1970. */
  newest = -Infinity;
  /** How much earlier a line was received, at most, than a line before it, in milliseconds. */
  disorderMs = 0;
  /** How many milliseconds an upload took at most, from the time in its id to `received_at`; Infinity if unknown. */
  longestMs = 0;

  add(uploadId: string, receivedAt: number): void {
    if (receivedAt > this.newest) this.newest = receivedAt;
    else if (this.newest - receivedAt > this.disorderMs) this.disorderMs = this.newest - receivedAt;
    // The time in the id. To save time, it isn't checked as in `timeOfUuid`: this runs for each upload.
    const beganAt = parseInt(uploadId.slice(0, 8) + uploadId.slice(9, 13), 16);
    const durationMs = receivedAt - beganAt;
    if (durationMs > this.longestMs) this.longestMs = durationMs;
  }

  addUnknown(): void {
    this.longestMs = Infinity;
  }
}
