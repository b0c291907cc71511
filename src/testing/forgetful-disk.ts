import { basename, dirname } from 'node:path';
import type { DataDirectoryLock } from '../common/data-directory/data-directory-lock.js';
import type { FileIdentity } from '../common/data-directory/file-identity.js';
import { type DirectoryOrigin, Disk, type DiskFile } from '../ingestion/adapters/out/local-disk/disk.js';
import { DirectoryNode, FileNode, LinkNode, type Node, survivors } from './forgetful-nodes.js';
import type { Random } from './random.js';

/** Syncs that the disk ignores, so that a power cut may lose more than POSIX allows. */
export interface DiskDefects {
  readonly ignored?: readonly ('sync' | 'syncDirectory')[];
}

const failed = (code: string, what: string): Error => Object.assign(new Error(`${code}: ${what}`), { code });

/**
 * A simulated disk in memory. A power cut keeps or loses at random:
 *
 * - each change of a sector (512 bytes) and each truncation since the last `sync` of the file
 * - each addition and removal of a name since the last `syncDirectory` of the directory
 *
 * But renaming never loses both the old and the new name of a file.
 *
 * Operations in flight at the same time are performed in a random order. With the same seed of `random`, everything
 * happens in the same way again, if the code that uses the disk waits for nothing but the disk.
 */
export class ForgetfulDisk extends Disk {
  /** Resolves when the power is cut. Operations then never settle. */
  readonly cut: Promise<void>;
  /**
   * The probability, from 0 to 1, that an operation that changes or syncs something fails. As on a real disk, data
   * whose `sync` failed may be lost at a power cut even if a later `sync` succeeds.
   */
  failureRate = 0;
  private cutPower = (): void => undefined;
  private readonly waiting: (() => void)[] = [];
  private state: 'idle' | 'busy' | 'dead' = 'idle';
  private operationsLeft = Infinity;

  constructor(
    private readonly random: Random,
    private readonly defects: DiskDefects = {},
    private readonly root = new DirectoryNode(),
  ) {
    super();
    this.cut = new Promise((resolve) => (this.cutPower = resolve));
  }

  /** Cuts the power after this many more operations. */
  cutAfter(operations: number): void {
    this.operationsLeft = operations;
    if (operations === 0) this.die();
  }

  /** Cuts the power, and returns a new disk with what survived. */
  afterCut(): ForgetfulDisk {
    this.die();
    return new ForgetfulDisk(this.random, this.defects, survivors(this.root, this.random));
  }

  files(): Map<string, Buffer> {
    return new Map(filesBeneath(this.root, ''));
  }

  override lock(): Promise<DataDirectoryLock> {
    return Promise.resolve({ isHeld: () => true, release: () => undefined });
  }

  override create(path: string): Promise<DiskFile> {
    return this.change(`create ${path}`, () => {
      const file = new FileNode();
      this.add(path, file);
      return this.opened(file, path);
    });
  }

  override async createSynchronized(path: string): Promise<DiskFile> {
    const file = await this.create(path);
    const write = async (chunks: readonly Uint8Array[], position: number) => {
      await file.write(chunks, position);
      await file.sync();
    };
    return { ...file, write };
  }

  override open(path: string): Promise<DiskFile> {
    return this.look(() => {
      const node = this.find(path);
      if (!(node instanceof FileNode)) throw failed('EISDIR', `open ${path}`);
      return this.opened(node, path);
    });
  }

  override openWritable(path: string): Promise<DiskFile> {
    return this.open(path);
  }

  override rename(from: string, to: string): Promise<void> {
    return this.change(`rename ${to}`, () => {
      const node = this.find(from);
      const added = this.directory(dirname(to)).set(basename(to), node);
      this.directory(dirname(from)).delete(basename(from), added);
    });
  }

  override remove(path: string): Promise<void> {
    return this.change(`remove ${path}`, () => {
      if (this.lookUp(path)) this.directory(dirname(path)).delete(basename(path));
    });
  }

  override removeTree(path: string): Promise<void> {
    return this.remove(path);
  }

  override removeEmptyDirectory(path: string): Promise<void> {
    return this.change(`rmdir ${path}`, () => {
      const node = this.lookUp(path);
      if (node instanceof DirectoryNode && node.entries.size === 0) this.directory(dirname(path)).delete(basename(path));
    });
  }

  override makeDirectory(path: string): Promise<void> {
    return this.change(`mkdir ${path}`, () => {
      this.add(path, new DirectoryNode());
    });
  }

  override readDirectory(path: string): Promise<string[]> {
    return this.look(() => [...this.directory(path).entries.keys()]);
  }

  override async *readLargeDirectory(path: string): AsyncGenerator<readonly string[]> {
    yield await this.readDirectory(path);
  }

  override async syncDirectory(path: string): Promise<void> {
    const sync = this.lookUp(path) instanceof DirectoryNode ? this.directory(path).beginSync() : undefined;
    await this.change(`fsync ${path}`, () => {
      this.directory(path);
      if (!this.defects.ignored?.includes('syncDirectory')) sync?.();
    });
  }

  override link(target: string, path: string): Promise<void> {
    return this.change(`symlink ${path}`, () => {
      this.add(path, new LinkNode(target));
    });
  }

  override identityOf(): FileIdentity {
    return { dev: 1n, ino: 1n };
  }

  override placeCheck(): () => boolean {
    return () => true;
  }

  override originOf(): DirectoryOrigin {
    return { device: 1n, inode: 1n, bornAt: 0n };
  }

  /** Returns the present time, because the disk keeps no times. To a caller, each directory has just changed. */
  override changedAt(): bigint {
    return BigInt(Date.now()) * 1_000_000n;
  }

  override assertDirectory(path: string): Promise<void> {
    return this.look(() => {
      this.directory(path);
    });
  }

  override isNameTaken(path: string): Promise<boolean> {
    return this.look(() => this.lookUp(path) !== undefined);
  }

  override isBelow(): Promise<boolean> {
    return Promise.resolve(true);
  }

  override assertWritable(directory: string): Promise<void> {
    return this.assertDirectory(directory);
  }

  override readLink(path: string): Promise<string> {
    return this.look(() => {
      const node = this.find(path);
      if (!(node instanceof LinkNode)) throw failed('EINVAL', `readlink ${path}`);
      return node.target;
    });
  }

  override plainFileSize(path: string): Promise<number | undefined> {
    return this.look(() => {
      const node = this.lookUp(path);
      return node instanceof FileNode ? node.bytes.length : undefined;
    });
  }

  private opened(file: FileNode, path: string): DiskFile {
    return {
      read: (buffer, position) => this.look(() => file.bytes.subarray(position).copy(buffer)),
      write: (chunks, position) => {
        const bytes = Buffer.concat(chunks);
        return this.change(
          `write ${path}`,
          () => {
            file.write(bytes, position);
          },
          () => {
            file.write(bytes.subarray(0, this.random.below(bytes.length + 1)), position);
          },
        );
      },
      sync: async () => {
        const covered = file.unsynced.length;
        await this.change(
          `fdatasync ${path}`,
          () => {
            if (!this.defects.ignored?.includes('sync')) file.settle(covered, () => true);
          },
          () => {
            file.settle(covered, () => this.random.chance(0.5));
          },
        );
      },
      truncate: (length) =>
        this.change(`truncate ${path}`, () => {
          file.truncate(length);
        }),
      size: () => this.look(() => file.bytes.length),
      standsAt: (at) => this.look(() => this.lookUp(at) === file),
      close: () => this.look(() => undefined),
    };
  }

  private add(path: string, node: Node): void {
    if (this.lookUp(path)) throw failed('EEXIST', path);
    this.directory(dirname(path)).set(basename(path), node);
  }

  private find(path: string): Node {
    const node = this.lookUp(path);
    if (!node) throw failed('ENOENT', path);
    return node;
  }

  private directory(path: string): DirectoryNode {
    const node = this.find(path);
    if (!(node instanceof DirectoryNode)) throw failed('ENOTDIR', path);
    return node;
  }

  private lookUp(path: string): Node | undefined {
    let node: Node | undefined = this.root;
    for (const name of path.split('/').filter(Boolean)) {
      node = node instanceof DirectoryNode ? node.entries.get(name) : undefined;
    }
    return node;
  }

  private async look<T>(perform: () => T): Promise<T> {
    await this.scheduled();
    return perform();
  }

  private async change<T>(what: string, perform: () => T, performPart?: () => void): Promise<T> {
    await this.scheduled();
    if (!this.random.chance(this.failureRate)) return perform();
    performPart?.();
    throw failed('EIO', what);
  }

  private scheduled(): Promise<void> {
    return new Promise((resolve) => {
      if (this.state === 'dead') return;
      this.waiting.push(resolve);
      if (this.state === 'busy') return;
      this.state = 'busy';
      setImmediate(this.serve);
    });
  }

  private readonly serve = (): void => {
    const [next] = this.state === 'dead' ? [] : this.waiting.splice(this.random.below(this.waiting.length), 1);
    if (!next) {
      if (this.state === 'busy') this.state = 'idle';
      return;
    }
    next();
    this.operationsLeft -= 1;
    // The next operation is chosen in a later iteration of the event loop, so that the code that waited for this one
    // can first begin further operations, which may then be chosen too.
    setImmediate(this.operationsLeft > 0 ? this.serve : this.die);
  };

  private readonly die = (): void => {
    this.state = 'dead';
    this.cutPower();
  };
}

function* filesBeneath(directory: DirectoryNode, path: string): Generator<[string, Buffer]> {
  for (const [name, node] of directory.entries) {
    if (node instanceof DirectoryNode) yield* filesBeneath(node, `${path}/${name}`);
    else yield [`${path}/${name}`, node instanceof FileNode ? node.bytes : Buffer.from(node.target)];
  }
}
