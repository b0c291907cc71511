import type { Random } from './random.js';

/** The size of a sector, the unit that a disk writes atomically, in bytes. */
const SECTOR_BYTES = 512;

type Change = (bytes: Buffer) => Buffer;

/** A file of a `ForgetfulDisk`: its current bytes, and the bytes that are certain to survive a power cut. */
export class FileNode {
  /**
   * The changes of the file that aren't synced yet, in order. Each can survive a power cut without the changes before
   * it.
   */
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
   * Settles the oldest `count` unsynced changes of the file. A change for which `isKept` returns true becomes durable.
   * Any other change is lost at the next power cut, whatever is synced later.
   */
  settle(count: number, isKept: () => boolean): void {
    for (const change of this.unsynced.splice(0, count)) if (isKept()) this.durable = change(this.durable);
  }

  /**
   * The file as a power cut leaves it. Calls `isKept` once for each unsynced change, to decide whether that change
   * survives.
   */
  survivor(isKept: () => boolean): FileNode {
    return new FileNode(this.unsynced.filter(isKept).reduce((bytes, change) => change(bytes), this.durable));
  }

  private change(change: Change): void {
    this.bytes = change(this.bytes);
    this.unsynced.push(change);
  }
}

/** A copy of some bytes that is cut off or extended to another length. Added bytes are zero. */
function resized(bytes: Buffer, length: number): Buffer {
  const result = Buffer.alloc(length);
  bytes.copy(result);
  return result;
}

export class LinkNode {
  constructor(readonly target: string) {}
}

export type Node = FileNode | DirectoryNode | LinkNode;

/**
 * A change of one name in a directory. `node` is the file, directory or link that the name stands for after the change;
 * undefined if the change removed the name.
 */
class NameChange {
  isDurable = false;
  private kept: boolean | undefined;

  constructor(
    readonly directory: DirectoryNode,
    readonly name: string,
    readonly node: Node | undefined,
    /**
     * Only if this change is the removal of the old name by a rename: the addition of the new name. The removal can't
     * survive a power cut without that addition.
     */
    readonly added: NameChange | undefined,
  ) {}

  /**
   * Whether this change survives the power cut. The first call decides that with `isKept`, and later calls return the
   * same.
   */
  survives(isKept: () => boolean): boolean {
    this.kept ??= this.added && !this.added.isDurable ? this.added.survives(isKept) : isKept();
    return this.kept;
  }
}

/** A directory of a `ForgetfulDisk`: its current names, and the names that are certain to survive a power cut. */
export class DirectoryNode {
  readonly entries: Map<string, Node>;
  private readonly durable: Map<string, Node>;
  /**
   * The changes of names that aren't synced yet, in order. Each can survive a power cut without the changes before it,
   * except that the removal of a rename's old name needs the addition of the new name.
   */
  private unsynced: NameChange[] = [];

  constructor(entries: ReadonlyMap<string, Node> = new Map<string, Node>()) {
    this.entries = new Map(entries);
    this.durable = new Map(entries);
  }

  set(name: string, node: Node): NameChange {
    this.entries.set(name, node);
    return this.change(name, node, undefined);
  }

  /** @param added if `name` is the old name of a rename, the change that added the new name. */
  delete(name: string, added?: NameChange): void {
    this.entries.delete(name);
    this.change(name, undefined, added);
  }

  /** Begins a sync of the directory. Returns a function that makes durable all changes made before this call. */
  beginSync(): () => void {
    const covered = [...this.unsynced];
    return () => {
      for (const change of covered) this.settle(change);
    };
  }

  /** The names that a power cut leaves in the directory, each with the file, directory or link that it stands for. */
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
    // This change, or a later one of the same name, is already durable.
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
 * A copy of a directory tree as a power cut leaves it: each unsynced change survives or is lost, at random. The tree
 * itself isn't changed.
 */
export function survivors(root: DirectoryNode, random: Random): DirectoryNode {
  const keeping = random.pick([0, 0.5, 1, random.next()]);
  const isKept = () => random.chance(keeping);
  // After a power cut, a file may have two names, because the removal of its old name by a rename can be lost. Both
  // names lead to the same copy of the file.
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
