import { UPLOAD_ID } from '../../../../domain/layout-names.js';
import type { UploadKind } from '../../../../domain/upload.js';
import { type LineMembers, membersOf } from '../../../../application/line-decoding.js';
import { uploadIdOf } from '../index-lines.js';

const ID = '{"upload_id":"';
const ID_BYTES = 36;
const BEHIND_ID = ID.length + ID_BYTES;
const RECEIVED_AT = '"received_at":"';
/** In a line that `indexLine` writes, at most this many bytes follow the text of `additional_data`. */
const TAIL_BYTES = 64 * 1024;
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const TIME_LENGTH = '2025-03-30T12:00:00.000Z'.length;

/** The members of an index line that can be read without decoding the whole line. */
export interface LineHead {
  readonly uploadId: string;
  /** When the upload was received, in milliseconds since 1970. */
  readonly receivedAt: number;
}

/**
 * Reads the upload's id and time from an index line; undefined if the line isn't valid. If the line has the form that
 * `indexLine` writes, the line isn't parsed as JSON. A long line of another form is parsed in turns with other work.
 */
export function headOf(line: Buffer): LineHead | undefined | Promise<LineHead | undefined> {
  const begin = line.toString('latin1', 0, BEHIND_ID);
  const tail = line.toString('latin1', Math.max(BEHIND_ID, line.length - TAIL_BYTES));
  const timeAt = tail.lastIndexOf(RECEIVED_AT);
  const receivedAt = timeAt < 0 ? Number.NaN : Date.parse(tail.slice(timeAt + RECEIVED_AT.length, timeAt + RECEIVED_AT.length + TIME_LENGTH));
  const uploadId = begin.slice(ID.length);
  if (!Number.isNaN(receivedAt) && begin.startsWith(ID) && UPLOAD_ID.test(uploadId)) return { uploadId, receivedAt };
  const members = membersOf(line, ['upload_id', 'received_at']);
  return members instanceof Promise ? members.then(headFrom) : headFrom(members);
}

/**
 * Reads only the upload's id from an index line; undefined if the line has none. A removal needs the id also if someone
 * has edited the line so that its time isn't valid.
 */
export function idOf(line: Buffer): string | undefined | Promise<string | undefined> {
  const uploadId = line.toString('latin1', ID.length, BEHIND_ID);
  return line.toString('latin1', 0, ID.length) === ID && UPLOAD_ID.test(uploadId) ? uploadId : uploadIdOf(line);
}

function headFrom(members: LineMembers | undefined): LineHead | undefined {
  const time = Date.parse(String(members?.received_at));
  return typeof members?.upload_id === 'string' && !Number.isNaN(time) ? { uploadId: members.upload_id, receivedAt: time } : undefined;
}

/**
 * Returns a function that reports whether an index line is of the given customer, usually without parsing the line as
 * JSON. All lines must be of the given kind.
 */
export function isOfCustomer(kind: UploadKind, customerId: string): (line: Buffer) => boolean | Promise<boolean> {
  const expected = Buffer.from(`","kind":"${kind}","customer_id":${JSON.stringify(customerId)},`);
  const begin = expected.subarray(0, expected.indexOf('"customer_id":') + '"customer_id":'.length);
  return (line) => {
    if (line.subarray(BEHIND_ID, BEHIND_ID + begin.length).equals(begin)) {
      if (line.subarray(BEHIND_ID, BEHIND_ID + expected.length).equals(expected)) return true;
      if (!hasEscape(line, BEHIND_ID + begin.length + 1)) return false;
    }
    const members = membersOf(line, ['customer_id']);
    return members instanceof Promise ? members.then((each) => each?.customer_id === customerId) : members?.customer_id === customerId;
  };
}

/**
 * Whether the JSON text whose first character is at an offset has an escaped character. Other programs escape characters
 * that `indexLine` doesn't, such as `\u00fc` for `ü`.
 */
function hasEscape(line: Buffer, begin: number): boolean {
  let at = begin;
  while (at < line.length && line[at] !== QUOTE && line[at] !== BACKSLASH) at += 1;
  return line[at] === BACKSLASH;
}
