import type { Random } from './random.js';

/** The size of the unit that a disk writes atomically, in bytes. */
const SECTOR_BYTES = 512;

type Change = (bytes: Buffer) => Buffer;

/** The current bytes of a file, and the bytes that are certain to survive a power cut. */
export class FileNode {
  /** The unsynced changes in order. Each can survive a power cut without the changes before it. */
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
   * Makes each of the oldest `count` changes durable if `isKept`. Otherwise a change is lost: no later sync covers it.
   */
  settle(count: number, isKept: () => boolean): void {
    for (const change of this.unsynced.splice(0, count)) if (isKept()) this.durable = change(this.durable);
  }

  /** The file that a power cut leaves. Calls `isKept` once for each unsynced change. */
  survivor(isKept: () => boolean): FileNode {
    return new FileNode(this.unsynced.filter(isKept).reduce((bytes, change) => change(bytes), this.durable));
  }

  private change(change: Change): void {
    this.bytes = change(this.bytes);
    this.unsynced.push(change);
  }
}

/** A copy of some bytes with another length. Added bytes are zero. */
function resized(bytes: Buffer, length: number): Buffer {
  const result = Buffer.alloc(length);
  bytes.copy(result);
  return result;
}

export class LinkNode {
  constructor(readonly target: string) {}
}

export type Node = FileNode | DirectoryNode | LinkNode;

/** A change of a name in a directory. `node` is what the name now stands for; undefined if the name was removed. */
class NameChange {
  isDurable = false;
  private kept: boolean | undefined;

  constructor(
    readonly directory: DirectoryNode,
    readonly name: string,
    readonly node: Node | undefined,
    /**
     * For the removal of the old name by a rename, the addition of the new name. The removal can't survive without it.
     */
    readonly added: NameChange | undefined,
  ) {}

  /** Whether this change survives the power cut. The first call decides, and later calls return the same. */
  survives(isKept: () => boolean): boolean {
    this.kept ??= this.added && !this.added.isDurable ? this.added.survives(isKept) : isKept();
    return this.kept;
  }
}

/** The current names in a directory, and the names that are certain to survive a power cut. */
export class DirectoryNode {
  readonly entries: Map<string, Node>;
  private readonly durable: Map<string, Node>;
  /** The unsynced changes in order. Each can survive a power cut without the changes before it. */
  private unsynced: NameChange[] = [];

  constructor(entries: ReadonlyMap<string, Node> = new Map<string, Node>()) {
    this.entries = new Map(entries);
    this.durable = new Map(entries);
  }

  set(name: string, node: Node): NameChange {
    this.entries.set(name, node);
    return this.change(name, node, undefined);
  }

  /** @param added if the name is the old one of a rename, the addition of the new name. */
  delete(name: string, added?: NameChange): void {
    this.entries.delete(name);
    this.change(name, undefined, added);
  }

  /** Returns a function that makes durable all changes made before `beginSync` was called. */
  beginSync(): () => void {
    const covered = [...this.unsynced];
    return () => {
      for (const change of covered) this.settle(change);
    };
  }

  /** The names, with their nodes, that a power cut leaves. */
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
    // This change, or a later one to the same name, was already made durable.
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

/**
 * A copy of the tree as a power cut leaves it: each unsynced change is made durable or lost. The original isn't
 * changed.
 */
export function survivors(root: DirectoryNode, random: Random): DirectoryNode {
  const keeping = random.pick([0, 0.5, 1, random.next()]);
  const isKept = () => random.chance(keeping);
  // A file may have two names here, because the removal of the old name by a rename can be lost. Both lead to one copy.
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
