import type { DataDirectoryLock } from '../common/data-directory/data-directory-lock.js';
import type { FileIdentity } from '../common/data-directory/file-identity.js';
import { type DirectoryOrigin, Disk, type DiskFile, type DiskSpace } from '../ingestion/adapters/out/local-disk/disk.js';
import { NodeDisk } from '../ingestion/adapters/out/local-disk/node-disk.js';
import type { SelfCheckingDatabase } from '../ingestion/adapters/out/local-disk/self-checking-database.js';

export type DiskOperation = Exclude<keyof Disk, number | symbol> | `file.${Exclude<keyof DiskFile, number | symbol>}`;

/** A function that performs an operation of a `GatedDisk`, fails it, or never settles. */
export type Gate = <T>(perform: () => Promise<T>, operation: DiskOperation, path: string) => Promise<T>;

/**
 * A `Disk` (the local store's file operations) for tests. The asynchronous operations, except `isBelow`,
 * `assertDirectory` and `spaceAt`, go through `gate`. A write to a file is two such operations, one for each half of its
 * bytes, so that a test can interrupt the write halfway. A synchronized write is three: the third one is `file.sync`. A
 * write of blocks is one.
 */
export class GatedDisk extends Disk {
  gate: Gate = (perform) => perform();
  bytesRead = 0;
  /** The space of all volumes; undefined: that of the disk. */
  space: DiskSpace | undefined;
  private readonly held = new Set<() => unknown>();
  private isDead = false;
  private readonly inFlight = new Set<Promise<unknown>>();
  private readonly opened = new Set<{ readonly path: string }>();

  constructor(private readonly disk: Disk = new NodeDisk()) {
    super();
  }

  /** The paths of the files that are open, as they were opened. */
  get openFiles(): string[] {
    return [...this.opened].map(({ path }) => path);
  }

  failNext(name: DiskOperation, paths = /^/): Error {
    const error = Object.assign(new Error(`EIO: i/o error, ${name}`), { code: 'EIO' });
    this.gateNext(name, () => Promise.reject(error), paths);
    return error;
  }

  /** Makes the next operation of this name wait until `release` is called. `reached` resolves when the wait begins. */
  holdNext(name: DiskOperation): { reached: Promise<void>; release: () => void } {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const reached = new Promise<void>((resolve) => {
      this.gateNext(name, () => {
        resolve();
        return released;
      });
    });
    return { reached, release };
  }

  /** Simulates SIGKILL of the process that uses the disk. */
  async die(): Promise<void> {
    this.gate = () => new Promise(() => undefined);
    this.isDead = true;
    // After a real SIGKILL, the operating system may still finish operations in progress, so they are awaited.
    await Promise.allSettled(this.inFlight);
    await Promise.all([...this.held].map((letGo) => letGo()));
    this.opened.clear();
  }

  override lock(directory: string, name: string): Promise<DataDirectoryLock> {
    return this.pass('lock', directory, async () => {
      const lock = await this.disk.lock(directory, name);
      const release = () => {
        this.held.delete(release);
        lock.release();
      };
      this.held.add(release);
      return { isHeld: () => lock.isHeld(), release };
    });
  }

  override create(path: string): Promise<DiskFile> {
    return this.pass('create', path, async () => this.gated(await this.disk.create(path), path));
  }

  override createSynchronized(path: string): Promise<DiskFile> {
    return this.pass('createSynchronized', path, async () => this.gated(await this.disk.createSynchronized(path), path, true));
  }

  override open(path: string): Promise<DiskFile> {
    return this.pass('open', path, async () => this.gated(await this.disk.open(path), path));
  }

  override openWritable(path: string): Promise<DiskFile> {
    return this.pass('openWritable', path, async () => this.gated(await this.disk.openWritable(path), path));
  }

  override rename(from: string, to: string): Promise<void> {
    return this.pass('rename', to, () => this.disk.rename(from, to));
  }

  override remove(path: string): Promise<void> {
    return this.pass('remove', path, () => this.disk.remove(path));
  }

  override removeEmptyDirectory(path: string): Promise<void> {
    return this.pass('removeEmptyDirectory', path, () => this.disk.removeEmptyDirectory(path));
  }

  override removeTree(path: string): Promise<void> {
    return this.pass('removeTree', path, () => this.disk.removeTree(path));
  }

  override makeDirectory(path: string): Promise<void> {
    return this.pass('makeDirectory', path, () => this.disk.makeDirectory(path));
  }

  override readDirectory(path: string): Promise<string[]> {
    return this.pass('readDirectory', path, () => this.disk.readDirectory(path));
  }

  override async *readLargeDirectory(path: string): AsyncGenerator<readonly string[]> {
    await this.pass('readLargeDirectory', path, () => Promise.resolve());
    yield* this.disk.readLargeDirectory(path);
  }

  override syncDirectory(path: string): Promise<void> {
    return this.pass('syncDirectory', path, () => this.disk.syncDirectory(path));
  }

  override link(target: string, path: string): Promise<void> {
    return this.pass('link', path, () => this.disk.link(target, path));
  }

  override readLink(path: string): Promise<string> {
    return this.pass('readLink', path, () => this.disk.readLink(path));
  }

  override identityOf(path: string): FileIdentity | undefined {
    return this.disk.identityOf(path);
  }

  override placeCheck(path: string, file: FileIdentity): () => boolean {
    return this.disk.placeCheck(path, file);
  }

  override originOf(path: string): DirectoryOrigin | undefined {
    return this.disk.originOf(path);
  }

  override changedAt(path: string): bigint | undefined {
    return this.disk.changedAt(path);
  }

  override assertDirectory(path: string): Promise<void> {
    return this.disk.assertDirectory(path);
  }

  override isNameTaken(path: string): Promise<boolean> {
    return this.pass('isNameTaken', path, () => this.disk.isNameTaken(path));
  }

  override isBelow(directory: string, ancestor: string): Promise<boolean> {
    return this.disk.isBelow(directory, ancestor);
  }

  override assertWritable(directory: string): Promise<void> {
    return this.pass('assertWritable', directory, () => this.disk.assertWritable(directory));
  }

  override plainFileSize(path: string): Promise<number | undefined> {
    return this.pass('plainFileSize', path, () => this.disk.plainFileSize(path));
  }

  override spaceAt(path: string): Promise<DiskSpace> {
    // A store on a dead disk would measure the space for as long as the tests run.
    if (this.isDead) return new Promise(() => undefined);
    return this.space ? Promise.resolve(this.space) : this.disk.spaceAt(path);
  }

  override openDatabase(path: string): SelfCheckingDatabase {
    const database = this.disk.openDatabase(path);
    this.held.add(() => database.close());
    return database;
  }

  private gateNext(name: DiskOperation, before: () => Promise<void>, paths = /^/): void {
    const { gate } = this;
    this.gate = async (perform, operation, path) => {
      if (operation !== name || !paths.test(path)) return gate(perform, operation, path);
      this.gate = gate;
      await before();
      return gate(perform, operation, path);
    };
  }

  private pass<T>(operation: DiskOperation, path: string, perform: () => Promise<T>): Promise<T> {
    const tracked = () => {
      const done = perform().finally(() => this.inFlight.delete(done));
      this.inFlight.add(done);
      return done;
    };
    return this.gate(tracked, operation, path);
  }

  private gated(file: DiskFile, path: string, isSynchronized = false): DiskFile {
    const close = () => file.close();
    this.held.add(close);
    const opened = { path };
    this.opened.add(opened);
    return {
      read: async (buffer, position) => {
        const read = await this.pass('file.read', path, () => file.read(buffer, position));
        this.bytesRead += read;
        return read;
      },
      write: async (chunks, position, areBlocks) => {
        if (areBlocks) {
          await this.pass('file.write', path, () => file.write(chunks, position, areBlocks));
          return;
        }
        const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
        const half = Math.floor(length / 2);
        await this.pass('file.write', path, () => file.write(between(chunks, 0, half), position));
        await this.pass('file.write', path, () => file.write(between(chunks, half, length), position + half));
        if (isSynchronized) await this.pass('file.sync', path, () => Promise.resolve());
      },
      sync: () => this.pass('file.sync', path, () => file.sync()),
      truncate: (length) => this.pass('file.truncate', path, () => file.truncate(length)),
      size: () => this.pass('file.size', path, () => file.size()),
      standsAt: (at) => this.pass('file.standsAt', path, () => file.standsAt(at)),
      close: () =>
        this.pass('file.close', path, () => {
          this.held.delete(close);
          this.opened.delete(opened);
          return close();
        }),
    };
  }
}

function between(chunks: readonly Uint8Array[], from: number, to: number): Uint8Array[] {
  let at = 0;
  return chunks.map((chunk) => {
    const begin = at;
    at += chunk.length;
    return chunk.subarray(Math.max(0, from - begin), Math.max(0, to - begin));
  });
}
