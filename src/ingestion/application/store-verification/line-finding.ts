import type { Finding, FindingKind } from './finding.js';
import { members, type SegmentLine } from './line-splitter.js';

export type LinePlace = NonNullable<Finding['line']>;

export const placeOf = ({ segment, offset }: SegmentLine): LinePlace => ({ segment, offset });

/** A finding about an index line itself, not about its file. */
export function lineFinding(line: SegmentLine, what: { state: Finding['state']; kind: FindingKind; detail: string }): Finding {
  const { upload_id: uploadId } = members(line);
  return { ...what, path: line.segment, uploadId: typeof uploadId === 'string' ? uploadId : null, line: placeOf(line) };
}
