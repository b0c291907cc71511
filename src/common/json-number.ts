import { unexpected } from './json-syntax-error.js';

const enum Part {
  Minus,
  Zero,
  Integer,
  Point,
  Fraction,
  Exponent,
  ExponentSign,
  ExponentDigits,
}

const MINUS = 0x2d;
const PLUS = 0x2b;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;

const isDigit = (byte: number): boolean => byte >= ZERO && byte <= NINE;

/** Checks the syntax of the numbers of a JSON text. A number may arrive in any number of chunks. */
export class JsonNumber {
  private part = Part.Integer;

  /** Whether the number may end here, as in `1`, `1.5` or `1e3`. */
  get isWhole(): boolean {
    const { part } = this;
    return part === Part.Zero || part === Part.Integer || part === Part.Fraction || part === Part.ExponentDigits;
  }

  /** @throws SyntaxError when no number begins with this byte. */
  begin(byte: number): void {
    if (byte === MINUS) this.part = Part.Minus;
    else if (byte === ZERO) this.part = Part.Zero;
    else if (isDigit(byte)) this.part = Part.Integer;
    else throw unexpected();
  }

  /**
   * @returns the position after the number; the end of `bytes` if the number may continue in the next chunk.
   * @throws SyntaxError when the number can neither go on with the next byte nor end before it, as in `1.x`.
   */
  read(bytes: Buffer, begin: number): number {
    let { part } = this;
    let at = begin;
    for (; at < bytes.length; at++) {
      const next = nextPart(part, bytes[at] ?? 0);
      if (next === undefined) break;
      part = next;
    }
    this.part = part;
    return at;
  }
}

function nextPart(part: Part, byte: number): Part | undefined {
  const digit = isDigit(byte);
  switch (part) {
    case Part.Minus:
      if (!digit) throw unexpected();
      return byte === ZERO ? Part.Zero : Part.Integer;
    case Part.Integer:
      if (digit) return Part.Integer;
      break;
    case Part.Point:
    case Part.Fraction:
      if (digit) return Part.Fraction;
      if (part === Part.Point) throw unexpected();
      break;
    case Part.Exponent:
      if (byte === MINUS || byte === PLUS) return Part.ExponentSign;
      if (!digit) throw unexpected();
      return Part.ExponentDigits;
    case Part.ExponentSign:
    case Part.ExponentDigits:
      if (digit) return Part.ExponentDigits;
      if (part === Part.ExponentSign) throw unexpected();
      return undefined;
    default:
      break;
  }
  if (byte === POINT && part !== Part.Fraction) return Part.Point;
  return byte === 0x65 || byte === 0x45 ? Part.Exponent : undefined;
}
