/** How long a text is at least of which a part is parsed before its end. */
const EARLY_LENGTH = 16_384;

/**
 * A text of JSON that comes in pieces. Where it is a long list of objects these are parsed as they come, so that little is
 * left to do at its end.
 */
export class JsonBody {
  private readonly items: unknown[] = [];
  private rest = '';
  private nextLength = EARLY_LENGTH;

  add(piece: string): void {
    this.rest += piece;
    if (this.rest.length >= this.nextLength && this.rest.startsWith('[')) this.parseEarly();
  }

  /** All that came, unless it is a long list. */
  get text(): string {
    return this.rest;
  }

  /** @throws SyntaxError when it is no JSON. */
  parse(): unknown {
    const last: unknown = JSON.parse(this.rest);
    return this.items.length > 0 && Array.isArray(last) ? this.items.concat(last) : last;
  }

  private parseEarly(): void {
    const end = this.rest.lastIndexOf('},{') + 1;
    try {
      // Only where an item ends is the text up to there, and a bracket, JSON.
      const whole: unknown[] = JSON.parse(`${this.rest.slice(0, end)}]`) as unknown[];
      for (const item of whole) this.items.push(item);
      this.rest = `[${this.rest.slice(end + 1)}`;
      this.nextLength = EARLY_LENGTH;
    } catch {
      // It comes within an item, or is no JSON, as will be seen at the end.
      this.nextLength = this.rest.length * 2;
    }
  }
}
