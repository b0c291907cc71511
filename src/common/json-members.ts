/** The most distinct texts in a list that is built. A list with more of them becomes an `OTHER_VALUE`. */
const MAX_ITEMS = 10_000;

/** Stands for a value that is neither a text, nor null, nor a list of texts. Such a value is checked but not built. */
export const OTHER_VALUE = Symbol('other JSON value');

/** The value of a member. A list contains each of its texts once, in order of first occurrence. */
export type JsonMember = string | null | readonly string[] | typeof OTHER_VALUE;

/** What becomes of the text that is being read. */
const enum Capture {
  Nothing,
  Name,
  Text,
  Item,
}

/**
 * The wanted members of the top-level object of a JSON text, built while a `JsonReader` reads the text. The reader
 * calls the methods in the order of the text, and checks the syntax itself. A `depth` is the number of lists and
 * objects that contain a value.
 */
export class JsonMembers {
  /** The wanted members that are complete so far. If a name is repeated, the last value counts. */
  readonly values = new Map<string, JsonMember>();
  /** Whether an unwanted member has begun. */
  hasOthers = false;

  private readonly maxNameLength: number;
  private capture = Capture.Nothing;
  private captured = '';
  /** The name of the wanted member whose value is being read. */
  private name: string | undefined;
  private list: Set<string> | undefined;

  /** @param wanted the names of the members to build. */
  constructor(private readonly wanted: ReadonlySet<string>) {
    this.maxNameLength = Math.max(0, ...[...wanted].map((name) => name.length));
  }

  /** Whether a list is being built: the value of a wanted member, with only texts so far. */
  get isBuildingList(): boolean {
    return this.list !== undefined;
  }

  /** Begins the name of a member of the top-level object. */
  beginName(): void {
    this.begin(Capture.Name);
  }

  /** Begins a value that is a text. */
  beginText(depth: number): void {
    if (depth === 1 && this.name !== undefined) this.begin(Capture.Text);
    else if (this.list && depth === 2) this.begin(Capture.Item);
  }

  /**
   * Adds bytes to the name or text that has begun. Does nothing if it isn't wanted.
   *
   * @param begin the position of the first of the bytes. They are whole characters and escapes.
   * @param end the position after the last of the bytes.
   */
  add(bytes: Buffer, begin: number, end: number, hasEscapes: boolean): void {
    if (this.capture === Capture.Nothing || begin === end) return;
    const text = bytes.toString('utf8', begin, end);
    this.captured += hasEscapes ? (JSON.parse(`"${text}"`) as string) : text;
    // This name is longer than any wanted name, so its rest isn't captured.
    if (this.capture === Capture.Name && this.captured.length > this.maxNameLength) this.enter(undefined);
  }

  /** Ends the name or text, also one that isn't wanted. */
  endText(): void {
    const { capture, captured } = this;
    if (capture === Capture.Name) this.enter(this.wanted.has(captured) ? captured : undefined);
    else if (capture === Capture.Text && this.name !== undefined) this.values.set(this.name, captured);
    else if (capture === Capture.Item && this.list && this.list.add(captured).size > MAX_ITEMS) this.list = undefined;
    this.begin(Capture.Nothing);
  }

  /** Sets a value that isn't a text. */
  set(depth: number, value: null | typeof OTHER_VALUE): void {
    if (depth === 1 && this.name !== undefined) {
      this.values.set(this.name, value);
    } else if (depth === 2) {
      // The list has an item that isn't a text, so it is no longer collected.
      this.list = undefined;
    }
  }

  /** Begins a value that is a list. Until the end of the list, the member is an `OTHER_VALUE`. */
  beginList(depth: number): void {
    this.set(depth, OTHER_VALUE);
    if (depth === 1 && this.name !== undefined) this.list = new Set();
  }

  /** Ends the list that is being built, if there is one. */
  endList(): void {
    if (this.name === undefined || !this.list) return;
    this.values.set(this.name, [...this.list]);
    this.list = undefined;
  }

  private begin(capture: Capture): void {
    this.capture = capture;
    this.captured = '';
  }

  /** Enters the member of this name; undefined if the member isn't wanted. */
  private enter(name: string | undefined): void {
    this.begin(Capture.Nothing);
    this.name = name;
    if (name === undefined) this.hasOthers = true;
  }
}
