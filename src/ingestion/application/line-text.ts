import { MIB } from '../../common/sizes.js';
import { parseJson } from '../../common/text.js';

const MAX_WHOLE_BYTES = 64 * 1024;
const MAX_TEXT_BYTES = 16 * 1024;
const MAX_ABRIDGED_BYTES = MIB;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const isEscape = (byte: number): boolean => '"\\/bfnrtu'.includes(String.fromCharCode(byte));
const isHexDigit = (byte: number): boolean => /^[0-9a-fA-F]$/.test(String.fromCharCode(byte));

/**
 * Collects one index line from pieces, in bounded memory. If the line is longer than 64 KiB, only the first 16 KiB of
 * each text (JSON string) are kept, and the rest is only validated. In a valid index line, only the text of
 * `additional_data` can be that long.
 */
export class LineText {
  private pieces: Buffer[] = [];
  private abridged: AbridgedLine | undefined;
  private bytes = 0;
  private nul = false;

  get length(): number {
    return this.bytes;
  }

  /** Whether the line has NUL bytes: after a power cut, blocks that never reached the disk read as zeros. */
  get hasNul(): boolean {
    return this.nul;
  }

  /** Adds a piece of the line. Afterwards the caller may reuse the piece's buffer. */
  add(piece: Buffer): void {
    this.bytes += piece.length;
    this.nul ||= piece.includes(0);
    if (this.bytes > MAX_WHOLE_BYTES && !this.abridged) {
      this.abridged = new AbridgedLine();
      for (const earlier of this.pieces) this.abridged.add(earlier);
      this.pieces = [];
    }
    if (this.abridged) this.abridged.add(piece);
    else this.pieces.push(Buffer.from(piece));
  }

  /**
   * The JSON value of the line, with abridged texts if it is long. Undefined if the line isn't JSON in UTF-8, or is
   * over 1 MiB even when abridged.
   */
  parse(): unknown {
    return this.abridged ? this.abridged.parse() : parseJson(Buffer.concat(this.pieces));
  }
}

class AbridgedLine {
  private readonly kept = Buffer.allocUnsafe(MAX_ABRIDGED_BYTES);
  private readonly decoder = new TextDecoder('utf-8', { fatal: true });
  private length = 0;
  private sound = true;
  private inText = false;
  private textLength = 0;
  /** The rest of an escape sequence: none, its letter, or a number of hex digits after `\u`. */
  private escape: 'none' | 'letter' | 1 | 2 | 3 | 4 = 'none';
  private keeping = true;

  add(piece: Buffer): void {
    if (!this.sound) return;
    try {
      this.decoder.decode(piece, { stream: true });
    } catch {
      this.sound = false;
      return;
    }
    for (const byte of piece) this.take(byte);
  }

  parse(): unknown {
    try {
      this.decoder.decode();
    } catch {
      return undefined;
    }
    return this.sound ? parseJson(this.kept.subarray(0, this.length)) : undefined;
  }

  private take(byte: number): void {
    if (!this.inText) {
      this.keep(byte);
      this.inText = byte === QUOTE;
      this.textLength = 0;
      return;
    }
    if (this.escape !== 'none') this.takeEscaped(byte);
    else if (byte === QUOTE) this.endText();
    else this.takeInText(byte);
  }

  private endText(): void {
    this.inText = false;
    this.keep(QUOTE);
  }

  private takeInText(byte: number): void {
    // Control characters are kept even where the text is abridged, so that JSON.parse refuses them. Any other character
    // is kept or dropped as a whole, and so is an escape sequence.
    const continues = (byte & 0xc0) === 0x80;
    if (!continues) this.keeping = this.textLength < MAX_TEXT_BYTES || byte < 0x20;
    if (byte === BACKSLASH) this.escape = 'letter';
    this.keepInText(byte);
  }

  private takeEscaped(byte: number): void {
    this.keepInText(byte);
    if (this.escape === 'letter') {
      this.sound &&= isEscape(byte);
      this.escape = byte === 0x75 ? 4 : 'none';
    } else if (this.escape !== 'none') {
      this.sound &&= isHexDigit(byte);
      this.escape = ([ 'none', 1, 2, 3 ] as const)[this.escape - 1] ?? 'none';
    }
  }

  private keepInText(byte: number): void {
    this.textLength += 1;
    if (this.keeping) this.keep(byte);
  }

  private keep(byte: number): void {
    // An index line that the service wrote never exceeds 1 MiB when it is abridged.
    if (this.length === MAX_ABRIDGED_BYTES) this.sound = false;
    else this.kept[this.length++] = byte;
  }
}
