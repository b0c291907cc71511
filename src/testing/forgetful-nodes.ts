import type { Random } from './random.js';

/** The unit that a disk writes atomically. */
const SECTOR_BYTES = 512;

type Change = (bytes: Buffer) => Buffer;

/** The current bytes of a file, and those that are certain to survive. */
export class FileNode {
  /** In order. Each may survive without those before it. */
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

  /** Makes the first `count` changes durable, or forgets them for good: no later sync covers them. */
  settle(count: number, isKept: () => boolean): void {
    for (const change of this.unsynced.splice(0, count)) if (isKept()) this.durable = change(this.durable);
  }

  /** The file that a power cut leaves. */
  survivor(isKept: () => boolean): FileNode {
    return new FileNode(this.unsynced.filter(isKept).reduce((bytes, change) => change(bytes), this.durable));
  }

  private change(change: Change): void {
    this.bytes = change(this.bytes);
    this.unsynced.push(change);
  }
}

/** A copy with another length. Added bytes are zero. */
function resized(bytes: Buffer, length: number): Buffer {
  const result = Buffer.alloc(length);
  bytes.copy(result);
  return result;
}

export class LinkNode {
  constructor(readonly target: string) {}
}

export type Node = FileNode | DirectoryNode | LinkNode;

/** A name that was created or replaced (`node`), or removed. */
class NameChange {
  isDurable = false;
  private kept: boolean | undefined;

  constructor(
    readonly directory: DirectoryNode,
    readonly name: string,
    readonly node: Node | undefined,
    /** The other half of a rename. Without it, this change can't survive. */
    readonly added: NameChange | undefined,
  ) {}

  /** Whether this block or name survives the power cut. Decided at random by the first call, and the same afterwards. */
  survives(isKept: () => boolean): boolean {
    this.kept ??= this.added && !this.added.isDurable ? this.added.survives(isKept) : isKept();
    return this.kept;
  }
}

/** The current names in a directory, and those that are certain to survive. */
export class DirectoryNode {
  readonly entries: Map<string, Node>;
  private readonly durable: Map<string, Node>;
  /** In order. Each may survive without those before it. */
  private unsynced: NameChange[] = [];

  constructor(entries: ReadonlyMap<string, Node> = new Map<string, Node>()) {
    this.entries = new Map(entries);
    this.durable = new Map(entries);
  }

  set(name: string, node: Node): NameChange {
    this.entries.set(name, node);
    return this.change(name, node, undefined);
  }

  /** @param added the new name of the removed one, for a rename. */
  delete(name: string, added?: NameChange): void {
    this.entries.delete(name);
    this.change(name, undefined, added);
  }

  /** Returns a function that makes all changes up to this call durable. */
  beginSync(): () => void {
    const covered = [...this.unsynced];
    return () => {
      for (const change of covered) this.settle(change);
    };
  }

  /** The names that a power cut leaves. */
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
    // A later change to the entry with this name was already made durable.
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

/** The tree that a power cut leaves, without unsynced changes. The original tree isn't changed. */
export function survivors(root: DirectoryNode, random: Random): DirectoryNode {
  const keeping = random.pick([0, 0.5, 1, random.next()]);
  const isKept = () => random.chance(keeping);
  // During a rename a file may have two names.
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
