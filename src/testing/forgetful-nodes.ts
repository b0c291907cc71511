import type { Random } from './random.js';

/** A disk writes a sector completely or not at all. */
const SECTOR_BYTES = 512;

type Change = (bytes: Buffer) => Buffer;

/** A file of a `ForgetfulDisk`. */
export class FileNode {
  /** The changes since the last sync, in order. A power cut may keep a change and lose an earlier one. */
  unsynced: Change[] = [];

  constructor(
    public bytes: Buffer = Buffer.alloc(0),
    private durable: Buffer = bytes,
  ) {}

  write(bytes: Uint8Array, position: number): void {
    const end = position + bytes.length;
    for (let from = position, to; from < end; from = to) {
      to = Math.min(end, from - (from % SECTOR_BYTES) + SECTOR_BYTES);
      const [sector, at] = [Buffer.from(bytes.subarray(from - position, to - position)), from];
      this.change((old) => {
        const changed = resized(old, Math.max(old.length, at + sector.length));
        sector.copy(changed, at);
        return changed;
      });
    }
  }

  truncate(length: number): void {
    this.change((old) => resized(old, length));
  }

  /**
   * Takes the `count` oldest unsynced changes. Makes those durable for which `isKept` returns true. The others are lost
   * at the next power cut, even if a later sync succeeds.
   */
  settle(count: number, isKept: () => boolean): void {
    for (const change of this.unsynced.splice(0, count)) if (isKept()) this.durable = change(this.durable);
  }

  survivor(isKept: () => boolean): FileNode {
    return new FileNode(this.unsynced.filter(isKept).reduce((bytes, change) => change(bytes), this.durable));
  }

  private change(change: Change): void {
    this.bytes = change(this.bytes);
    this.unsynced.push(change);
  }
}

function resized(bytes: Buffer, length: number): Buffer {
  const result = Buffer.alloc(length);
  bytes.copy(result);
  return result;
}

export class LinkNode {
  constructor(readonly target: string) {}
}

export type Node = FileNode | DirectoryNode | LinkNode;

class NameChange {
  isDurable = false;
  private kept: boolean | undefined;

  constructor(
    readonly directory: DirectoryNode,
    readonly name: string,
    readonly node: Node | undefined,
    /**
     * If this change removes the old name of a renamed file: the change that added the new name. A power cut can't keep
     * the removal and lose the addition.
     */
    readonly added: NameChange | undefined,
  ) {}

  survives(isKept: () => boolean): boolean {
    this.kept ??= this.added && !this.added.isDurable ? this.added.survives(isKept) : isKept();
    return this.kept;
  }
}

/** A directory of a `ForgetfulDisk`. */
export class DirectoryNode {
  readonly entries: Map<string, Node>;
  private readonly durable: Map<string, Node>;
  /** The changes of names since the last sync, oldest first. A power cut may keep a change and lose an earlier one. */
  private unsynced: NameChange[] = [];

  constructor(entries: ReadonlyMap<string, Node> = new Map<string, Node>()) {
    this.entries = new Map(entries);
    this.durable = new Map(entries);
  }

  set(name: string, node: Node): NameChange {
    this.entries.set(name, node);
    return this.change(name, node, undefined);
  }

  delete(name: string, added?: NameChange): void {
    this.entries.delete(name);
    this.change(name, undefined, added);
  }

  /** Begins a sync. The returned function ends it, and makes the changes durable that were made before the begin. */
  beginSync(): () => void {
    const covered = [...this.unsynced];
    return () => {
      for (const change of covered) this.settle(change);
    };
  }

  surviving(isKept: () => boolean): Map<string, Node> {
    const names = new Map(this.durable);
    for (const change of this.unsynced) if (change.survives(isKept)) apply(change, names);
    return names;
  }

  private change(name: string, node: Node | undefined, added: NameChange | undefined): NameChange {
    const change = new NameChange(this, name, node, added);
    this.unsynced.push(change);
    return change;
  }

  private settle(change: NameChange): void {
    const index = this.unsynced.indexOf(change);
    // Nothing to do if another sync has made durable this change or a later one of the same name.
    if (index < 0) return;
    change.added?.directory.settle(change.added);
    this.unsynced = this.unsynced.filter((other, at) => at > index || other.name !== change.name);
    change.isDurable = true;
    apply(change, this.durable);
  }
}

function apply({ name, node }: NameChange, names: Map<string, Node>): void {
  if (node) names.set(name, node);
  else names.delete(name);
}

/** Copies a directory tree as a power cut leaves it: each unsynced change is kept or lost at random. */
export function survivors(root: DirectoryNode, random: Random): DirectoryNode {
  const keeping = random.pick([0, 0.5, 1, random.next()]);
  const isKept = () => random.chance(keeping);
  // Each file is copied once: if a power cut keeps both names of a renamed file, they must lead to the same copy.
  const copies = new Map<Node, Node>();
  const copyOf = (node: Node): Node => {
    const copy = copies.get(node) ?? newCopyOf(node);
    copies.set(node, copy);
    return copy;
  };
  const newCopyOf = (node: Node): Node => {
    if (node instanceof FileNode) return node.survivor(isKept);
    return node instanceof DirectoryNode ? copyOfDirectory(node) : node;
  };
  const copyOfDirectory = (directory: DirectoryNode): DirectoryNode =>
    new DirectoryNode(new Map([...directory.surviving(isKept)].map(([name, node]) => [name, copyOf(node)])));
  return copyOfDirectory(root);
}
