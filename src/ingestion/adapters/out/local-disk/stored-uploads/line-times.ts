/**
 * Bounds for the times of a segment's lines, in milliseconds. They tell which part of the segment must be read for a
 * page of the list, or to find an upload. They stay correct bounds when lines are removed.
 */
export class LineTimes {
  /** The latest `received_at` of the lines, in milliseconds since 1970; -Infinity without lines. */
  newest = -Infinity;
  /** By how much the lines are out of order: how much earlier a line was received, at most, than a line before it. */
  disorderMs = 0;
  /**
   * How long the upload of a line took at most, from the time in its id to `received_at`. Infinity if that is unknown.
   */
  longestMs = 0;

  /** Takes the next line into account. */
  add(uploadId: string, receivedAt: number): void {
    if (receivedAt > this.newest) this.newest = receivedAt;
    else if (this.newest - receivedAt > this.disorderMs) this.disorderMs = this.newest - receivedAt;
    // The time in the id. Not checked as `timeOfUuid` does, because this runs for each upload.
    const beganAt = parseInt(uploadId.slice(0, 8) + uploadId.slice(9, 13), 16);
    const durationMs = receivedAt - beganAt;
    if (durationMs > this.longestMs) this.longestMs = durationMs;
  }

  /** Takes a line into account whose times aren't known, because it isn't valid. */
  addUnknown(): void {
    this.longestMs = Infinity;
  }
}
