/**
 * The largest number of distinct texts in the list of a wanted member. The value of a list with more becomes
 * `OTHER_VALUE`.
 */
const MAX_ITEMS = 10_000;

/**
 * Stands for a value that is neither a text, nor null, nor a list of at most 10,000 distinct texts. The syntax of such
 * a value is checked, but the value isn't kept.
 */
export const OTHER_VALUE = Symbol('other JSON value');

/** The value of a member of a JSON object. A list contains each of its texts once, in order of first occurrence. */
export type JsonMember = string | null | readonly string[] | typeof OTHER_VALUE;

/** The purpose for which the current text is collected. `Nothing`: the text isn't wanted and isn't collected. */
const enum Capture {
  Nothing,
  Name,
  Text,
  Item,
}

/**
 * The wanted members of the top-level object of a JSON text, built while a `JsonReader` reads that text. The reader
 * calls these methods in the order of the text, and checks the syntax itself. The argument `depth` is the number of
 * lists and objects that contain a value.
 */
export class JsonMembers {
  /** The values of the wanted members read so far, by name. If a name is repeated, its last value counts. */
  readonly values = new Map<string, JsonMember>();
  /** Whether a member of the top-level object with an unwanted name has begun. */
  hasOthers = false;

  private readonly maxNameLength: number;
  private capture = Capture.Nothing;
  private captured = '';
  /** The name of the member that is being read; undefined if that member isn't wanted. */
  private name: string | undefined;
  private list: Set<string> | undefined;

  /** @param wanted the names of the members to build. */
  constructor(private readonly wanted: ReadonlySet<string>) {
    this.maxNameLength = Math.max(0, ...[...wanted].map((name) => name.length));
  }

  /** Whether a list is being built. The list is the value of a wanted member, and all its items so far are texts. */
  get isBuildingList(): boolean {
    return this.list !== undefined;
  }

  /** Begins the name of a member of the top-level object. */
  beginName(): void {
    this.begin(Capture.Name);
  }

  /** Begins a text that isn't a name: the value of a member, an item of a list, or the whole JSON text. */
  beginText(depth: number): void {
    if (depth === 1 && this.name !== undefined) this.begin(Capture.Text);
    else if (this.list && depth === 2) this.begin(Capture.Item);
  }

  /**
   * Adds bytes to the name or text that has begun. Does nothing if that name or text isn't wanted.
   *
   * @param begin the position of the first of the bytes. The bytes must be whole characters and whole escapes.
   * @param end the position after the last of the bytes.
   */
  add(bytes: Buffer, begin: number, end: number, hasEscapes: boolean): void {
    if (this.capture === Capture.Nothing || begin === end) return;
    const text = bytes.toString('utf8', begin, end);
    this.captured += hasEscapes ? (JSON.parse(`"${text}"`) as string) : text;
    // The name is already longer than any wanted name, so the rest of it isn't collected.
    if (this.capture === Capture.Name && this.captured.length > this.maxNameLength) this.enter(undefined);
  }

  /** Ends the name or text that has begun, wanted or not. */
  endText(): void {
    const { capture, captured } = this;
    if (capture === Capture.Name) this.enter(this.wanted.has(captured) ? captured : undefined);
    else if (capture === Capture.Text && this.name !== undefined) this.values.set(this.name, captured);
    else if (capture === Capture.Item && this.list && this.list.add(captured).size > MAX_ITEMS) this.list = undefined;
    this.begin(Capture.Nothing);
  }

  /**
   * Reports a value that isn't a text. If the value belongs to a wanted member, it becomes that member's value. If it
   * is an item of the list that is being built, that list isn't built further.
   */
  set(depth: number, value: null | typeof OTHER_VALUE): void {
    if (depth === 1 && this.name !== undefined) {
      this.values.set(this.name, value);
    } else if (depth === 2) {
      // The list that is being built has an item that isn't a text, so its member keeps the value `OTHER_VALUE`.
      this.list = undefined;
    }
  }

  /**
   * Begins a value that is a list. If it belongs to a wanted member, that member has the value `OTHER_VALUE` until
   * `endList`. If it is an item of the list that is being built, that list isn't built further.
   */
  beginList(depth: number): void {
    this.set(depth, OTHER_VALUE);
    if (depth === 1 && this.name !== undefined) this.list = new Set();
  }

  /** Ends the list that is being built and makes it the value of its member. Does nothing if no list is being built. */
  endList(): void {
    if (this.name === undefined || !this.list) return;
    this.values.set(this.name, [...this.list]);
    this.list = undefined;
  }

  private begin(capture: Capture): void {
    this.capture = capture;
    this.captured = '';
  }

  /** Begins the value of the member with this name. `undefined` stands for a member that isn't wanted. */
  private enter(name: string | undefined): void {
    this.begin(Capture.Nothing);
    this.name = name;
    if (name === undefined) this.hasOthers = true;
  }
}
