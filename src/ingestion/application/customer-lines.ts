import type { UploadKind } from '../domain/upload.js';
import { type LineMembers, membersOf } from './line-decoding.js';

/** An index line that `indexLine` writes begins with this, and then has the upload's id. */
export const LINE_BEGIN = '{"upload_id":"';
/** The offset after the upload's id in an index line that `indexLine` writes, in bytes. */
export const BEHIND_ID = LINE_BEGIN.length + '00000000-0000-0000-0000-000000000000'.length;
const [QUOTE, BACKSLASH] = [0x22, 0x5c];

const NO_BYTES = Buffer.alloc(0);
const viewOf = (bytes: Buffer): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

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
