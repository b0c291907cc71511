import contentDisposition from 'content-disposition';
import { ServiceError } from '../../../../common/service-error.js';
import { trimBlanks } from '../../../../common/text.js';
import { Turns } from '../../../../common/turns.js';

const MAX_PARTS = 1_000;
const MAX_PART_HEADER_BYTES = 16_384;
/** The most parameters of Content-Disposition, as in Rack. Parsing compares each name with all earlier ones. */
const MAX_DISPOSITION_PARAMETERS = 16;
/**
 * How much work the parts may cause before the reader lets other requests run between headers. Each part counts as 256
 * plus the number of bytes of its headers. Usual forms cause less.
 */
const FREE_WORK = 8 * 1024;
const PART_WORK = 256;
const FIELD_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** A header's value, decoded as Latin-1: visible octets, blanks, tabs and octets above 0x7f (RFC 9110, 5.5). */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const CRLF = Buffer.from('\r\n');
const BLANK_LINE = Buffer.from('\r\n\r\n');
const [DASH, CR] = [0x2d, 0x0d];
/**
 * A quoted string. Its closing quote is optional: a pattern that requires it would take quadratic time on a text with
 * many unclosed quotes.
 */
const QUOTED_STRING = /"(?:[^"\\]|\\.)*"?/g;

/** One part of a form (RFC 7578). */
export interface MultipartPart {
  /** The `name` in the part's Content-Disposition, if that is `form-data`. */
  readonly name: string | undefined;
  readonly contentType: string | undefined;
  /** The part's content. Can be read once, before the next part is requested, which skips the unread bytes. */
  readonly bytes: AsyncGenerator<Buffer, void, undefined>;
}

const malformed = (message: string, cause?: unknown): ServiceError =>
  new ServiceError('invalid-request-body', message, { cause });

/**
 * Reads a multipart form part by part (RFC 2046, 5.1.1), no further than the caller asks for. Throws the errors of the
 * source unchanged.
 */
export class MultipartReader {
  private readonly delimiter: Buffer;
  /**
   * Bytes that were received but not read yet. At first a line break that isn't from the source: a delimiter begins
   * with one, but a form may begin with its first delimiter without one.
   */
  private unread: Buffer = CRLF;
  /**
   * Whether the delimiter that ends the current part still has to be read. The text before the first delimiter counts
   * as a part.
   */
  private inside = true;
  private parts = 0;
  private work = 0;
  private turns: Turns | undefined;

  constructor(
    private readonly source: AsyncIterator<Buffer>,
    boundary: string,
  ) {
    this.delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  }

  /**
   * Returns the next part; undefined after the last one, when the source was read to its end.
   *
   * @throws ServiceError `invalid-request-body` if the form is malformed, ends too early, or has more than 1,000 parts.
   */
  async next(): Promise<MultipartPart | undefined> {
    if (this.inside) await skip(this.upToDelimiter());
    if (await this.isClosed()) {
      while (!(await this.source.next()).done);
      return undefined;
    }
    this.parts += 1;
    if (this.parts > MAX_PARTS) throw malformed('too many parts');
    const headers = await this.readHeaders();
    this.work += PART_WORK + headers.length;
    if (this.work > FREE_WORK) await this.turn();
    this.inside = true;
    return { ...parseHeaders(headers), bytes: this.upToDelimiter() };
  }

  private async *upToDelimiter(): AsyncGenerator<Buffer, void, undefined> {
    for (let at; (at = this.unread.indexOf(this.delimiter)) !== 0; ) {
      const end = at > 0 ? at : this.incompleteDelimiterAt();
      if (end > 0) {
        const chunk = this.unread.subarray(0, end);
        this.unread = this.unread.subarray(end);
        yield chunk;
      }
      if (at < 0) await this.more();
    }
    this.unread = this.unread.subarray(this.delimiter.length);
    this.inside = false;
  }

  /** Where the unread bytes end with the beginning of a delimiter; otherwise their length. */
  private incompleteDelimiterAt(): number {
    const { unread, delimiter } = this;
    let at = unread.indexOf(CR, Math.max(0, unread.length - delimiter.length + 1));
    while (at >= 0 && !delimiter.subarray(0, unread.length - at).equals(unread.subarray(at))) at = unread.indexOf(CR, at + 1);
    return at >= 0 ? at : unread.length;
  }

  private async isClosed(): Promise<boolean> {
    await this.need(2);
    if (this.unread[0] === DASH && this.unread[1] === DASH) return true;
    for (let blanks; (blanks = leadingBlanks(this.unread)) > 0; ) {
      this.unread = this.unread.subarray(blanks);
      await this.need(2);
    }
    if (!this.unread.subarray(0, 2).equals(CRLF)) throw malformed('text behind a boundary');
    return false;
  }

  private async turn(): Promise<void> {
    this.turns ??= new Turns();
    if (this.turns.isOver) await this.turns.next();
  }

  private async readHeaders(): Promise<string> {
    let end;
    while ((end = this.unread.indexOf(BLANK_LINE)) < 0) {
      if (this.unread.length > MAX_PART_HEADER_BYTES) throw malformed('headers of a part too long');
      await this.more();
    }
    if (end > MAX_PART_HEADER_BYTES) throw malformed('headers of a part too long');
    const headers = this.unread.subarray(2, Math.max(2, end)).toString('latin1');
    this.unread = this.unread.subarray(end + BLANK_LINE.length);
    return headers;
  }

  private async need(bytes: number): Promise<void> {
    while (this.unread.length < bytes) await this.more();
  }

  private async more(): Promise<void> {
    const next = await this.source.next();
    if (next.done) throw malformed('the form ends too early');
    this.unread = this.unread.length === 0 ? next.value : Buffer.concat([this.unread, next.value]);
  }
}

function leadingBlanks(bytes: Buffer): number {
  let at = 0;
  while (bytes[at] === 0x20 || bytes[at] === 0x09) at += 1;
  return at;
}

async function skip(bytes: AsyncIterable<Buffer>): Promise<void> {
  const iterator = bytes[Symbol.asyncIterator]();
  while (!(await iterator.next()).done);
}

function parseHeaders(text: string): Omit<MultipartPart, 'bytes'> {
  const headers = new Map<string, string>();
  for (const line of text === '' ? [] : text.split('\r\n')) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).toLowerCase();
    const value = trimBlanks(line.slice(colon + 1));
    if (!FIELD_NAME.test(name) || !FIELD_VALUE.test(value)) throw malformed('a header of a part');
    if (headers.has(name)) throw malformed('a header of a part twice');
    headers.set(name, value);
  }
  const type = headers.get('content-type');
  return {
    name: nameOf(headers.get('content-disposition')),
    contentType: type === '' ? undefined : type,
  };
}

function nameOf(disposition: string | undefined): string | undefined {
  if (disposition === undefined) return undefined;
  const separators = disposition.replace(QUOTED_STRING, '').split(';').length - 1;
  if (separators > MAX_DISPOSITION_PARAMETERS) throw malformed('too many parameters of Content-Disposition');
  try {
    const { type, parameters } = contentDisposition.parse(disposition);
    return type === 'form-data' ? parameters.name : undefined;
  } catch (error) {
    throw malformed('Content-Disposition', error);
  }
}
