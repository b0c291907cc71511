export interface SeenLine {
  readonly upload_id: string;
  readonly content_path: string | null;
  readonly content_sha256: string | null;
}

/** Parses the lines of index segments. Throws if a segment ends in an incomplete line, or a line is no JSON. */
export function toIndexLines(segments: readonly string[]): SeenLine[] {
  return segments.flatMap((text) => {
    const lines = text.split('\n');
    if (lines.pop() !== '') throw new Error(`A segment has a torn end: ${text.slice(-80)}`);
    return lines.map((line) => JSON.parse(line) as SeenLine);
  });
}
