import { isUtf8 } from 'node:buffer';
import { endOfEscape } from './json-escape.js';
import { type JsonMember, JsonMembers, OTHER_VALUE } from './json-members.js';
import { JsonNumber } from './json-number.js';
import { unexpected } from './json-syntax-error.js';
import { endOfWholeCharacters } from './utf8.js';

/** The most levels of lists and objects that a JSON text may have. */
export const MAX_JSON_DEPTH = 128;

const enum State {
  Value,
  ItemOrEnd,
  KeyOrEnd,
  Key,
  Colon,
  AfterValue,
  Text,
  Number,
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const EMPTY = Buffer.alloc(0);
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
const LITERALS: Readonly<Record<number, Buffer>> = {
  0x74: Buffer.from('true'),
  0x66: Buffer.from('false'),
  0x6e: Buffer.from('null'),
};

/**
 * Checks the syntax of a JSON text (RFC 8259) chunk by chunk, and builds only the wanted members of its top-level
 * object. Accepts the same texts as `JSON.parse`, with three differences: the text must be UTF-8, it may be at most 128
 * levels deep, and it may begin with one byte order mark. Memory use is bounded by the values of the wanted members
 * plus a few bytes.
 */
export class JsonReader {
  /** Whether the text's value is an object. False until the first byte of the value has been read. */
  isObject = false;

  private readonly built: JsonMembers;
  private readonly number = new JsonNumber();
  private state = State.Value;
  /** For each depth, 1 in an object and 0 in a list. */
  private readonly levels = new Uint8Array(MAX_JSON_DEPTH + 1);
  private depth = 0;
  /** An incomplete byte order mark, character, escape or literal at the end of the previous chunk. */
  private rest: Buffer = EMPTY;
  private hasBegun = false;
  private isKey = false;

  constructor(wanted: ReadonlySet<string>) {
    this.built = new JsonMembers(wanted);
  }

  get members(): ReadonlyMap<string, JsonMember> {
    return this.built.values;
  }

  get hasOtherMembers(): boolean {
    return this.built.hasOthers;
  }

  /**
   * Reads the next chunk, in time proportional to its length. Must not be called after it has thrown.
   *
   * @throws SyntaxError when no JSON text begins with the bytes so far, or when they aren't UTF-8 or are too deep.
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
    if (!isUtf8(whole)) throw new SyntaxError("The text isn't UTF-8.");
    this.rest = bytes.subarray(this.read(whole));
  }

  /** @throws SyntaxError when the chunks so far aren't a complete JSON text. */
  end(): void {
    const isValueWhole = this.state === State.AfterValue || (this.state === State.Number && this.number.isWhole);
    if (this.rest.length > 0 || this.depth > 0 || !isValueWhole) throw new SyntaxError('The text ends too early.');
  }

  private isInText(): boolean {
    return this.state === State.Text;
  }

  /** @returns the end of `bytes`, or the start of an incomplete literal or escape. */
  private read(bytes: Buffer): number {
    let at = 0;
    const { length } = bytes;
    while (at < length) {
      if (this.isInText()) {
        at = this.readText(bytes, at);
        if (this.isInText()) return at;
        continue;
      }
      if (this.state === State.Number) {
        at = this.readNumber(bytes, at);
        continue;
      }
      if (this.depth > 1 && !this.built.isBuildingList) {
        at = this.skip(bytes, at);
        if (at === length) break;
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

  /** Reads unwanted values, faster than `read`. Stops after them, before numbers and literals, and within texts. */
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

  /** @returns the number of bytes consumed; 0 if `bytes` ends within a literal. */
  private beginValue(bytes: Buffer, at: number, byte: number): number {
    if (this.depth === 0) this.isObject = byte === OPEN_OBJECT;
    if (byte === CLOSE_LIST && this.state === State.ItemOrEnd) {
      this.close();
      return 1;
    }
    if (byte === QUOTE) {
      this.built.beginText(this.depth);
      this.isKey = false;
      this.state = State.Text;
      return 1;
    }
    const literal = byte < 0x60 || byte > 0x74 ? undefined : LITERALS[byte];
    if (literal && at + literal.length > bytes.length) {
      if (bytes.compare(literal, 0, bytes.length - at, at) !== 0) throw unexpected();
      return 0;
    }
    if (byte === OPEN_LIST) this.built.beginList(this.depth);
    else this.built.set(this.depth, byte === 0x6e ? null : OTHER_VALUE);
    if (literal) {
      if (bytes.compare(literal, 0, literal.length, at, at + literal.length) !== 0) throw unexpected();
      this.state = State.AfterValue;
      return literal.length;
    }
    if (byte === OPEN_OBJECT) this.open(true);
    else if (byte === OPEN_LIST) this.open(false);
    else {
      this.number.begin(byte);
      this.state = State.Number;
    }
    return 1;
  }

  private open(isObject: boolean): void {
    if (this.depth === MAX_JSON_DEPTH) throw tooDeep();
    this.depth += 1;
    this.levels[this.depth] = isObject ? 1 : 0;
    this.state = isObject ? State.KeyOrEnd : State.ItemOrEnd;
  }

  private close(): void {
    if (this.depth === 2) this.built.endList();
    this.depth -= 1;
    this.state = State.AfterValue;
  }

  private endValue(byte: number): void {
    if (this.depth === 0) throw unexpected();
    const isObject = this.levels[this.depth] === 1;
    if (byte === COMMA) this.state = isObject ? State.Key : State.Value;
    else if (byte === (isObject ? CLOSE_OBJECT : CLOSE_LIST)) this.close();
    else throw unexpected();
  }

  private beginKey(): void {
    if (this.depth === 1) this.built.beginName();
    this.isKey = true;
    this.state = State.Text;
  }

  /** @returns the position after the closing quote, the end of `bytes`, or the start of an incomplete escape. */
  private readText(bytes: Buffer, begin: number): number {
    const { length } = bytes;
    let hasEscapes = false;
    let at = begin;
    for (; at < length; at++) {
      const byte = bytes[at] ?? 0;
      if (byte === QUOTE) {
        this.built.add(bytes, begin, at, hasEscapes);
        this.built.endText();
        this.state = this.isKey ? State.Colon : State.AfterValue;
        return at + 1;
      }
      if (byte < 0x20) throw unexpected();
      if (byte !== BACKSLASH) continue;
      hasEscapes = true;
      const end = endOfEscape(bytes, at);
      if (end < 0) break;
      at = end - 1;
    }
    this.built.add(bytes, begin, at, hasEscapes);
    return at;
  }

  private readNumber(bytes: Buffer, begin: number): number {
    const end = this.number.read(bytes, begin);
    if (end < bytes.length) this.state = State.AfterValue;
    return end;
  }
}

const tooDeep = (): SyntaxError => new SyntaxError(`The text is deeper than ${MAX_JSON_DEPTH} levels.`);
