import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ABSENT, type ContentProblem, digestProblem, type ExpectedContent, type OnBytes, otherSize } from '../../../../application/store-verification/store-view.js';
import { hasCode } from '../disk-error.js';
import { partOf } from '../store-directory.js';

const CHUNK_BYTES = 512 * 1024;

/**
 * Flags that open a file only for reading. A link at the end of the path isn't followed, and opening a FIFO doesn't
 * wait for its other end.
 */
export const READ_ONLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Compares files with their index lines, one file at a time. Has two buffers of its own. */
export class ContentCheck {
  /** The results of `resolved`: absolute paths of the store's parts, by their paths relative to the root. */
  private readonly parts = new Map<string, string>();
  private readonly buffers = [Buffer.allocUnsafeSlow(CHUNK_BYTES), Buffer.allocUnsafeSlow(CHUNK_BYTES)] as const;

  constructor(
    /** The store's root, as an absolute path without symbolic links. */
    private readonly root: string,
  ) {}

  /**
   * Compares the size and sha-256 of a file with its index line. Resolves to undefined if both match, otherwise to the
   * problem, for example that the file is absent.
   *
   * @throws an error of the file system if the file exists but can't be read.
   */
  async check(expected: ExpectedContent, onBytes: OnBytes): Promise<ContentProblem | undefined> {
    const file = await this.open(expected.path);
    if (!file) return ABSENT;
    try {
      const stats = await file.stat();
      if (!stats.isFile()) return { kind: 'bytes-absent', detail: 'there is no plain file' };
      if (stats.size !== expected.size) return otherSize(stats.size, expected);
      return digestProblem(await this.sha256(file, onBytes), expected);
    } finally {
      await file.close();
    }
  }

  /** The sha-256 of a file, in hex. Reads the next chunk while the current one is hashed. */
  private async sha256(file: FileHandle, onBytes: OnBytes): Promise<string> {
    const hash = createHash('sha256');
    let [next, afterwards]: readonly [Buffer, Buffer] = this.buffers;
    let reading = file.read(next, 0, CHUNK_BYTES, 0);
    for (let position = 0; ; ) {
      const { bytesRead, buffer } = await reading;
      if (bytesRead === 0) return hash.digest('hex');
      position += bytesRead;
      [next, afterwards] = [afterwards, next];
      reading = file.read(next, 0, CHUNK_BYTES, position);
      hash.update(buffer.subarray(0, bytesRead));
      onBytes(bytesRead);
    }
  }

  /**
   * Opens a file to read it. Undefined if the file is missing or is a socket, or if its path leads through a symbolic
   * link below its part of the store.
   *
   * @param path the path of the file, relative to the store's root.
   */
  private async open(path: string): Promise<FileHandle | undefined> {
    const part = partOf(path);
    try {
      const plain = join(await this.resolved(part), path.slice(part.length));
      return (await realpath(join(this.root, path))) === plain ? await open(plain, READ_ONLY) : undefined;
    } catch (error) {
      if (hasCode(error, 'ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'ENXIO')) return undefined;
      throw error;
    }
  }

  /**
   * The absolute path of a part of the store. If the part is a symbolic link, the path to which the link leads, unless
   * the directory above the part is a link too.
   */
  private async resolved(part: string): Promise<string> {
    const known = this.parts.get(part);
    if (known !== undefined) return known;
    const [path, above] = [join(this.root, part), join(this.root, dirname(part))];
    const resolved = (await realpath(above)) === above ? await realpath(path) : path;
    this.parts.set(part, resolved);
    return resolved;
  }
}
