const MAX_ITEMS = 10_000;

/** Stands for a value that isn't kept: any but a text, null, or a list of at most 10,000 distinct texts. */
export const OTHER_VALUE = Symbol('other JSON value');

/** The value of a wanted member. A list contains each of its texts once, in order of first occurrence. */
export type JsonMember = string | null | readonly string[] | typeof OTHER_VALUE;

const enum Capture {
  Nothing,
  Name,
  Text,
  Item,
}

/**
 * The wanted members of the top-level object of a JSON text. A `JsonReader` calls these methods in the order of the
 * text, and checks the syntax itself. `depth` is the number of lists and objects that contain a value.
 */
export class JsonMembers {
  /** The values of the wanted members by name. If a name is repeated, its last value counts. */
  readonly values = new Map<string, JsonMember>();
  hasOthers = false;

  private readonly maxNameLength: number;
  private capture = Capture.Nothing;
  private captured = '';
  private name: string | undefined;
  private list: Set<string> | undefined;

  constructor(private readonly wanted: ReadonlySet<string>) {
    this.maxNameLength = Math.max(0, ...[...wanted].map((name) => name.length));
  }

  /** Whether a list is being built: the value of a wanted member, so far with at most 10,000 distinct texts only. */
  get isBuildingList(): boolean {
    return this.list !== undefined;
  }

  beginName(): void {
    this.begin(Capture.Name);
  }

  beginText(depth: number): void {
    if (depth === 1 && this.name !== undefined) this.begin(Capture.Text);
    else if (this.list && depth === 2) this.begin(Capture.Item);
  }

  /** Adds the bytes of a name or text from `begin` to `end` (excluded): whole characters and whole escapes. */
  add(bytes: Buffer, begin: number, end: number, hasEscapes: boolean): void {
    if (this.capture === Capture.Nothing || begin === end) return;
    const text = bytes.toString('utf8', begin, end);
    this.captured += hasEscapes ? (JSON.parse(`"${text}"`) as string) : text;
    // A name that is longer than any wanted name isn't collected further.
    if (this.capture === Capture.Name && this.captured.length > this.maxNameLength) this.enter(undefined);
  }

  endText(): void {
    const { capture, captured } = this;
    if (capture === Capture.Name) this.enter(this.wanted.has(captured) ? captured : undefined);
    else if (capture === Capture.Text && this.name !== undefined) this.values.set(this.name, captured);
    else if (capture === Capture.Item && this.list && this.list.add(captured).size > MAX_ITEMS) this.list = undefined;
    this.begin(Capture.Nothing);
  }

  set(depth: number, value: null | typeof OTHER_VALUE): void {
    if (depth === 1 && this.name !== undefined) {
      this.values.set(this.name, value);
    } else if (depth === 2) {
      // The list has an item that isn't a text, so its member keeps the value `OTHER_VALUE`.
      this.list = undefined;
    }
  }

  /** A member whose value is a list has the value `OTHER_VALUE` until `endList`. */
  beginList(depth: number): void {
    this.set(depth, OTHER_VALUE);
    if (depth === 1 && this.name !== undefined) this.list = new Set();
  }

  endList(): void {
    if (this.name === undefined || !this.list) return;
    this.values.set(this.name, [...this.list]);
    this.list = undefined;
  }

  private begin(capture: Capture): void {
    this.capture = capture;
    this.captured = '';
  }

  private enter(name: string | undefined): void {
    this.begin(Capture.Nothing);
    this.name = name;
    if (name === undefined) this.hasOthers = true;
  }
}
