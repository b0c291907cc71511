import { isUtf8 } from 'node:buffer';
import { endOfWholeCharacters } from './utf8.js';

/** The deepest allowed nesting of lists and objects, in levels. */
export const MAX_JSON_DEPTH = 128;
/** The most distinct texts in a list that is built. A list with more of them becomes an `OTHER_VALUE`. */
const MAX_ITEMS = 10_000;

/** Stands for a value that is neither a text, nor null, nor a list of texts. Such a value is checked but not built. */
export const OTHER_VALUE = Symbol('other JSON value');

/** The value of a member. A list contains each of its texts once, in order of first occurrence. */
export type JsonMember = string | null | readonly string[] | typeof OTHER_VALUE;

const enum State {
  Value,
  ItemOrEnd,
  KeyOrEnd,
  Key,
  Colon,
  AfterValue,
  Text,
  Minus,
  Zero,
  Integer,
  Point,
  Fraction,
  Exponent,
  ExponentSign,
  ExponentDigits,
}

const enum Capture {
  Nothing,
  Name,
  Text,
  Item,
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const MINUS = 0x2d;
const PLUS = 0x2b;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LETTER_U = 0x75;

const EMPTY = Buffer.alloc(0);
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
const LITERALS: Readonly<Record<number, Buffer>> = {
  0x74: Buffer.from('true'),
  0x66: Buffer.from('false'),
  0x6e: Buffer.from('null'),
};
/** The characters besides `u` that are allowed after a backslash: " \ / b f n r t */
const ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));

const isDigit = (byte: number): boolean => byte >= ZERO && byte <= NINE;
const isHex = (byte: number): boolean =>
  isDigit(byte) || (byte >= 0x61 && byte <= 0x66) || (byte >= 0x41 && byte <= 0x46);

/**
 * Checks a JSON text (RFC 8259) chunk by chunk and builds only the wanted members of its top-level object. Accepts the
 * same texts as `JSON.parse`, with two exceptions: the text must be UTF-8 and at most 128 levels deep, and it may begin
 * with one byte order mark. Memory use is bounded by the wanted values plus a few bytes.
 */
export class JsonReader {
  /** The wanted members that are complete so far. If a name is repeated, the last value counts. */
  readonly members = new Map<string, JsonMember>();
  /** Whether an unwanted member has begun. */
  hasOtherMembers = false;
  /** Whether the top-level value is an object. False until the first byte of that value has been read. */
  isObject = false;

  private readonly maxNameLength: number;
  private state = State.Value;
  /** The kind of each level of nesting: 1 for an object, 0 for a list. */
  private readonly levels = new Uint8Array(MAX_JSON_DEPTH + 1);
  private depth = 0;
  /** The bytes of an unfinished character, escape or literal. */
  private rest: Buffer = EMPTY;
  private hasBegun = false;
  private isKey = false;
  private capture = Capture.Nothing;
  private captured = '';
  /** The name of the wanted member whose value is being read. */
  private name: string | undefined;
  private list: Set<string> | undefined;

  /** @param wanted the names of the members to build. */
  constructor(private readonly wanted: ReadonlySet<string>) {
    this.maxNameLength = Math.max(0, ...[...wanted].map((name) => name.length));
  }

  /**
   * Reads the next chunk, in time proportional to its length.
   *
   * @throws SyntaxError when the bytes so far can't begin a JSON text. Nothing may be added after that.
   */
  add(chunk: Buffer): void {
    let bytes = this.rest.length > 0 ? Buffer.concat([this.rest, chunk]) : chunk;
    this.rest = EMPTY;
    if (!this.hasBegun) {
      if (bytes.length < BYTE_ORDER_MARK.length && BYTE_ORDER_MARK.subarray(0, bytes.length).equals(bytes)) {
        this.rest = bytes;
        return;
      }
      this.hasBegun = true;
      if (bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK)) bytes = bytes.subarray(BYTE_ORDER_MARK.length);
    }
    const end = endOfWholeCharacters(bytes);
    const whole = bytes.subarray(0, end);
    if (!isUtf8(whole)) throw new SyntaxError('The text is no UTF-8.');
    this.rest = bytes.subarray(this.read(whole));
  }

  /** @throws SyntaxError when the text is incomplete. */
  end(): void {
    const isValueWhole =
      this.state === State.AfterValue ||
      this.state === State.Zero ||
      this.state === State.Integer ||
      this.state === State.Fraction ||
      this.state === State.ExponentDigits;
    if (this.rest.length > 0 || this.depth > 0 || !isValueWhole) throw new SyntaxError('The text ends too early.');
  }

  private isInText(): boolean {
    return this.state === State.Text;
  }

  /** @returns the position where reading stopped: the end, or the start of an incomplete token. */
  private read(bytes: Buffer): number {
    let at = 0;
    const { length } = bytes;
    while (at < length) {
      if (this.isInText()) {
        at = this.readText(bytes, at);
        if (this.isInText()) return at;
        continue;
      }
      if (this.state >= State.Minus) {
        at = this.readNumber(bytes, at);
        continue;
      }
      if (this.depth > 1 && this.list === undefined) {
        at = this.skip(bytes, at);
        if (at === length) break;
        // The next pass of the loop handles a text, or the level above the skipped member. Otherwise a number or
        // literal begins here.
        if (this.isInText() || this.depth === 1) continue;
      }
      const byte = bytes[at] ?? 0;
      if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) {
        at += 1;
        continue;
      }
      switch (this.state) {
        case State.AfterValue:
          this.endValue(byte);
          at += 1;
          break;
        case State.Colon:
          if (byte !== COLON) throw unexpected();
          this.state = State.Value;
          at += 1;
          break;
        case State.KeyOrEnd:
        case State.Key:
          if (byte === QUOTE) this.beginKey();
          else if (byte === CLOSE_OBJECT && this.state === State.KeyOrEnd) this.close();
          else throw unexpected();
          at += 1;
          break;
        default: {
          const begun = this.beginValue(bytes, at, byte);
          if (begun === 0) return at;
          at += begun;
        }
      }
    }
    return at;
  }

  /**
   * Reads on within a member that isn't built. Has the same effect as `read` and is faster, but handles only lists and
   * objects.
   *
   * @returns the position where reading stopped: the end, within a text, after the member, or before a number or
   * literal.
   */
  private skip(bytes: Buffer, begin: number): number {
    const { levels } = this;
    let { state, depth } = this;
    let at = begin;
    scan: for (; at < bytes.length; at++) {
      const byte = bytes[at] ?? 0;
      if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) continue;
      const isObject = levels[depth] === 1;
      if (byte === (isObject ? CLOSE_OBJECT : CLOSE_LIST)) {
        if (state !== State.AfterValue && state !== State.KeyOrEnd && state !== State.ItemOrEnd) throw unexpected();
        state = State.AfterValue;
        depth -= 1;
        if (depth > 1) continue;
        at += 1;
        break;
      }
      switch (state) {
        case State.AfterValue:
          if (byte !== COMMA) throw unexpected();
          state = isObject ? State.Key : State.Value;
          break;
        case State.Colon:
          if (byte !== COLON) throw unexpected();
          state = State.Value;
          break;
        case State.KeyOrEnd:
        case State.Key:
          if (byte !== QUOTE) throw unexpected();
          this.isKey = true;
          state = State.Text;
          at += 1;
          break scan;
        default:
          if (byte === QUOTE) {
            this.isKey = false;
            state = State.Text;
            at += 1;
            break scan;
          }
          if (byte !== OPEN_OBJECT && byte !== OPEN_LIST) break scan;
          if (depth === MAX_JSON_DEPTH) throw tooDeep();
          depth += 1;
          levels[depth] = byte === OPEN_OBJECT ? 1 : 0;
          state = byte === OPEN_OBJECT ? State.KeyOrEnd : State.ItemOrEnd;
      }
    }
    this.state = state;
    this.depth = depth;
    return at;
  }

  /** @returns the number of bytes consumed; 0 for a literal that may be incomplete. */
  private beginValue(bytes: Buffer, at: number, byte: number): number {
    const isTopMember = this.depth === 1 && this.levels[1] === 1;
    if (this.depth === 0) this.isObject = byte === OPEN_OBJECT;
    if (byte === CLOSE_LIST && this.state === State.ItemOrEnd) {
      this.close();
      return 1;
    }
    if (byte === QUOTE) {
      if (isTopMember && this.name !== undefined) this.beginCapture(Capture.Text);
      else if (this.list && this.depth === 2) this.beginCapture(Capture.Item);
      this.isKey = false;
      this.state = State.Text;
      return 1;
    }
    const literal = byte < 0x60 || byte > 0x74 ? undefined : LITERALS[byte];
    if (literal && at + literal.length > bytes.length) {
      // Waits for more bytes only if the bytes so far can still become the literal.
      if (bytes.compare(literal, 0, bytes.length - at, at) !== 0) throw unexpected();
      return 0;
    }
    if (isTopMember && this.name !== undefined) {
      this.members.set(this.name, byte === 0x6e ? null : OTHER_VALUE);
    } else if (this.depth === 2) {
      // The list has an item that isn't a text, so it is no longer collected.
      this.list = undefined;
    }
    if (literal) {
      if (bytes.compare(literal, 0, literal.length, at, at + literal.length) !== 0) throw unexpected();
      this.state = State.AfterValue;
      return literal.length;
    }
    if (byte === OPEN_OBJECT) this.open(true);
    else if (byte === OPEN_LIST) {
      if (isTopMember && this.name !== undefined) this.list = new Set();
      this.open(false);
    } else if (byte === MINUS) this.state = State.Minus;
    else if (byte === ZERO) this.state = State.Zero;
    else if (isDigit(byte)) this.state = State.Integer;
    else throw unexpected();
    return 1;
  }

  private open(isObject: boolean): void {
    if (this.depth === MAX_JSON_DEPTH) throw tooDeep();
    this.depth += 1;
    this.levels[this.depth] = isObject ? 1 : 0;
    this.state = isObject ? State.KeyOrEnd : State.ItemOrEnd;
  }

  private close(): void {
    if (this.depth === 2 && this.name !== undefined && this.list) {
      this.members.set(this.name, [...this.list]);
      this.list = undefined;
    }
    this.depth -= 1;
    this.state = State.AfterValue;
  }

  /** Handles the byte after a value. */
  private endValue(byte: number): void {
    if (this.depth === 0) throw unexpected();
    const isObject = this.levels[this.depth] === 1;
    if (byte === COMMA) this.state = isObject ? State.Key : State.Value;
    else if (byte === (isObject ? CLOSE_OBJECT : CLOSE_LIST)) this.close();
    else throw unexpected();
  }

  private beginKey(): void {
    if (this.depth === 1) this.beginCapture(Capture.Name);
    this.isKey = true;
    this.state = State.Text;
  }

  private beginCapture(what: Capture): void {
    this.capture = what;
    this.captured = '';
  }

  /**
   * @returns the position where reading stopped: after the text (the state has then changed), the end, or before an
   * incomplete escape.
   */
  private readText(bytes: Buffer, begin: number): number {
    const { length } = bytes;
    let hasEscapes = false;
    let at = begin;
    for (; at < length; at++) {
      const byte = bytes[at] ?? 0;
      if (byte === QUOTE) {
        this.take(bytes, begin, at, hasEscapes);
        this.endText();
        return at + 1;
      }
      if (byte < 0x20) throw unexpected();
      if (byte !== BACKSLASH) continue;
      hasEscapes = true;
      const end = endOfEscape(bytes, at);
      if (end < 0) break;
      at = end - 1;
    }
    this.take(bytes, begin, at, hasEscapes);
    return at;
  }

  private take(bytes: Buffer, begin: number, end: number, hasEscapes: boolean): void {
    if (this.capture === Capture.Nothing || begin === end) return;
    const text = bytes.toString('utf8', begin, end);
    this.captured += hasEscapes ? (JSON.parse(`"${text}"`) as string) : text;
    // This name is longer than any wanted name, so its rest isn't captured.
    if (this.capture === Capture.Name && this.captured.length > this.maxNameLength) this.beginName(undefined);
  }

  private endText(): void {
    const { capture, captured } = this;
    if (capture === Capture.Name) this.beginName(this.wanted.has(captured) ? captured : undefined);
    else if (capture === Capture.Text && this.name !== undefined) this.members.set(this.name, captured);
    else if (capture === Capture.Item && this.list && this.list.add(captured).size > MAX_ITEMS) this.list = undefined;
    this.beginCapture(Capture.Nothing);
    this.state = this.isKey ? State.Colon : State.AfterValue;
  }

  private beginName(name: string | undefined): void {
    this.beginCapture(Capture.Nothing);
    this.name = name;
    if (name === undefined) this.hasOtherMembers = true;
  }

  /** @returns the position where reading stopped: after the number (the state has then changed), or the end. */
  private readNumber(bytes: Buffer, begin: number): number {
    let { state } = this;
    let at = begin;
    for (; at < bytes.length; at++) {
      const next = nextInNumber(state, bytes[at] ?? 0);
      if (next === undefined) {
        this.state = State.AfterValue;
        return at;
      }
      state = next;
    }
    this.state = state;
    return at;
  }
}

const unexpected = (): SyntaxError => new SyntaxError('The text is no JSON.');
const tooDeep = (): SyntaxError => new SyntaxError(`The text is deeper than ${MAX_JSON_DEPTH} levels.`);

/** The position after the escape that begins at a backslash; -1 if the escape is incomplete. */
function endOfEscape(bytes: Buffer, at: number): number {
  if (at + 1 >= bytes.length) return -1;
  const byte = bytes[at + 1] ?? 0;
  if (byte !== LETTER_U) {
    if (!ESCAPES.has(byte)) throw unexpected();
    return at + 2;
  }
  for (let digit = at + 2; digit < at + 6; digit++) {
    if (digit >= bytes.length) return -1;
    if (!isHex(bytes[digit] ?? 0)) throw unexpected();
  }
  return at + 6;
}

/** The state after one more byte of a number; undefined when the number ends before that byte. */
function nextInNumber(state: State, byte: number): State | undefined {
  const digit = isDigit(byte);
  switch (state) {
    case State.Minus:
      if (!digit) throw unexpected();
      return byte === ZERO ? State.Zero : State.Integer;
    case State.Integer:
      if (digit) return State.Integer;
      break;
    case State.Point:
    case State.Fraction:
      if (digit) return State.Fraction;
      if (state === State.Point) throw unexpected();
      break;
    case State.Exponent:
      if (byte === MINUS || byte === PLUS) return State.ExponentSign;
      if (!digit) throw unexpected();
      return State.ExponentDigits;
    case State.ExponentSign:
    case State.ExponentDigits:
      if (digit) return State.ExponentDigits;
      if (state === State.ExponentSign) throw unexpected();
      return undefined;
    default:
      break;
  }
  if (byte === POINT && state !== State.Fraction) return State.Point;
  return byte === 0x65 || byte === 0x45 ? State.Exponent : undefined;
}
