import { UPLOAD_ID } from '../../../../domain/layout-names.js';
import { BEHIND_ID, LINE_BEGIN } from '../../../../application/customer-lines.js';
import { type LineMembers, membersOf } from '../../../../application/line-decoding.js';
import { uploadIdOf } from '../index-lines.js';

const RECEIVED_AT = '"received_at":"';
/** In a line that `indexLine` writes, at most this many bytes follow the text of `additional_data`. */
const TAIL_BYTES = 64 * 1024;
const TIME_LENGTH = '2025-03-30T12:00:00.000Z'.length;

export interface LineHead {
  readonly uploadId: string;
  /** The `received_at` of the line, in milliseconds since 1970. */
  readonly receivedAt: number;
}

/**
 * Reads the upload's id and time from an index line; undefined if the line doesn't have both. A line of the form that
 * `indexLine` writes isn't parsed as JSON, so it may be damaged elsewhere.
 */
export function headOf(line: Buffer): LineHead | undefined | Promise<LineHead | undefined> {
  const begin = line.toString('latin1', 0, BEHIND_ID);
  const tail = line.toString('latin1', Math.max(BEHIND_ID, line.length - TAIL_BYTES));
  const timeAt = tail.lastIndexOf(RECEIVED_AT);
  const receivedAt = timeAt < 0 ? Number.NaN : Date.parse(tail.slice(timeAt + RECEIVED_AT.length, timeAt + RECEIVED_AT.length + TIME_LENGTH));
  const uploadId = begin.slice(LINE_BEGIN.length);
  if (!Number.isNaN(receivedAt) && begin.startsWith(LINE_BEGIN) && UPLOAD_ID.test(uploadId)) return { uploadId, receivedAt };
  const members = membersOf(line, ['upload_id', 'received_at']);
  return members instanceof Promise ? members.then(headFrom) : headFrom(members);
}

/** Reads the upload's id from an index line, even if the line's time isn't valid; undefined if the line has none. */
export function idOf(line: Buffer): string | undefined | Promise<string | undefined> {
  const uploadId = line.toString('latin1', LINE_BEGIN.length, BEHIND_ID);
  return line.toString('latin1', 0, LINE_BEGIN.length) === LINE_BEGIN && UPLOAD_ID.test(uploadId) ? uploadId : uploadIdOf(line);
}

function headFrom(members: LineMembers | undefined): LineHead | undefined {
  const time = Date.parse(String(members?.received_at));
  return typeof members?.upload_id === 'string' && !Number.isNaN(time) ? { uploadId: members.upload_id, receivedAt: time } : undefined;
}
