import type { Finding, FindingKind } from './finding.js';
import { members, type SegmentLine } from './segment-lines.js';

/** The place where a line begins. */
export type LinePlace = NonNullable<Finding['line']>;

/** The place where a line that was read begins. */
export const placeOf = ({ segment, offset }: SegmentLine): LinePlace => ({ segment, offset });

/** A finding about a line itself, so with the path of its segment. */
export function lineFinding(line: SegmentLine, what: { state: Finding['state']; kind: FindingKind; detail: string }): Finding {
  const { upload_id: uploadId } = members(line);
  return { ...what, path: line.segment, uploadId: typeof uploadId === 'string' ? uploadId : null, line: placeOf(line) };
}
