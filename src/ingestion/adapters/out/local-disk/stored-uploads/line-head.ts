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

const NO_BYTES = Buffer.alloc(0);
const viewOf = (bytes: Buffer): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

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
  const uploadId = begin.slice(ID.length);
  if (!Number.isNaN(receivedAt) && begin.startsWith(ID) && UPLOAD_ID.test(uploadId)) return { uploadId, receivedAt };
  const members = membersOf(line, ['upload_id', 'received_at']);
  return members instanceof Promise ? members.then(headFrom) : headFrom(members);
}

/** Reads the upload's id from an index line, even if the line's time isn't valid; undefined if the line has none. */
export function idOf(line: Buffer): string | undefined | Promise<string | undefined> {
  const uploadId = line.toString('latin1', ID.length, BEHIND_ID);
  return line.toString('latin1', 0, ID.length) === ID && UPLOAD_ID.test(uploadId) ? uploadId : uploadIdOf(line);
}

function headFrom(members: LineMembers | undefined): LineHead | undefined {
  const time = Date.parse(String(members?.received_at));
  return typeof members?.upload_id === 'string' && !Number.isNaN(time) ? { uploadId: members.upload_id, receivedAt: time } : undefined;
}

/** Selects the index lines of one customer. All lines must be of one kind of upload. */
export class CustomerLines {
  private readonly expected: Buffer;
  /** The bytes of `expected`, four in each number, without up to three at the end: numbers compare faster. */
  private readonly words: Uint32Array;
  private readonly customerAt: number;
  private bytes: Buffer = NO_BYTES;
  /** A view of `bytes`: it is made once for all lines of a chunk. */
  private view = viewOf(NO_BYTES);

  constructor(
    kind: UploadKind,
    private readonly customerId: string,
  ) {
    const before = `","kind":"${kind}","customer_id":`;
    this.expected = Buffer.from(`${before}${JSON.stringify(customerId)}`);
    this.words = Uint32Array.from({ length: this.expected.length >> 2 }, (_, index) => this.expected.readUInt32LE(4 * index));
    this.customerAt = before.length + 1;
  }

  has(line: Buffer): boolean | Promise<boolean> {
    return this.quickly(line, 0) ?? this.byParsing(line);
  }

  /** Whether the line at an offset is of another customer. False if only parsing it as JSON would show that. */
  leavesOut(bytes: Buffer, begin: number): boolean {
    return this.quickly(bytes, begin) === false;
  }

  /**
   * Whether a line is of the customer; undefined if only parsing the line as JSON would show that. Makes no object and
   * reads only the beginning of the line, because a page may look at many lines of other customers.
   */
  private quickly(bytes: Buffer, begin: number): boolean | undefined {
    const { expected, words, customerAt } = this;
    const from = begin + BEHIND_ID;
    if (bytes !== this.bytes) [this.bytes, this.view] = [bytes, viewOf(bytes)];
    let at = 0;
    if (from + expected.length <= bytes.length) {
      const { view } = this;
      let word = 0;
      while (word < words.length && view.getUint32(from + 4 * word, true) === words[word]) word += 1;
      at = 4 * word;
    }
    while (at < expected.length && bytes[from + at] === expected[at]) at += 1;
    if (at === expected.length) return true;
    return at < customerAt || hasEscape(bytes, from + customerAt) ? undefined : false;
  }

  private byParsing(line: Buffer): boolean | Promise<boolean> {
    const isOfCustomer = (members: LineMembers | undefined): boolean => members?.customer_id === this.customerId;
    const members = membersOf(line, ['customer_id']);
    return members instanceof Promise ? members.then(isOfCustomer) : isOfCustomer(members);
  }
}

/** Whether a JSON text has an escape: other programs may escape more than `indexLine`, such as `\u00fc` for `ü`. */
function hasEscape(bytes: Buffer, begin: number): boolean {
  let at = begin;
  while (at < bytes.length && bytes[at] !== QUOTE && bytes[at] !== BACKSLASH) at += 1;
  return bytes[at] === BACKSLASH;
}
