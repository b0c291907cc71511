import { setImmediate as nextIteration } from 'node:timers/promises';
import { MIB } from '../../../../common/sizes.js';
import { isJsonObject, parseJson } from '../../../../common/text.js';
import { NEWLINE, rawLines } from '../../../application/raw-lines.js';

const LINES_AT_ONCE_BYTES = MIB;

export interface SegmentCheck {
  readonly problem?: string;
  /** Whether a line of the segment has an idempotency key. Not reliable if there is a `problem`. */
  readonly isKeyed: boolean;
}

/** Checks that a segment ends with a newline, and that each of its lines is a JSON object. */
export async function checkSegment(bytes: Buffer): Promise<SegmentCheck> {
  let isKeyed = false;
  if (bytes.at(-1) !== NEWLINE) return { problem: 'its last line has no newline', isKeyed };
  let looked = 0;
  for (const { begin, end, bytes: text } of rawLines(bytes)) {
    const line = parseJson(text);
    if (!isJsonObject(line)) return { problem: `the line at byte ${begin} is not a JSON object in UTF-8`, isKeyed };
    isKeyed ||= 'idempotency_key' in line;
    if (end - looked > LINES_AT_ONCE_BYTES) {
      looked = end;
      await nextIteration();
    }
  }
  return { isKeyed };
}
