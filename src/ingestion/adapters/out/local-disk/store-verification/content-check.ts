import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasCode } from '../../../../../common/error-code.js';
import { ABSENT, type ContentProblem, digestProblem, type ExpectedContent, type OnBytes, otherSize } from '../../../../application/store-verification/store-view.js';
import { partOf } from '../store-directory.js';

const CHUNK_BYTES = 512 * 1024;

/** Flags with which a link at the end of the path isn't followed, and opening a FIFO doesn't wait for its other end. */
export const READ_ONLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Compares files with their index lines: one file at a time, because it reuses its buffers. */
export class ContentCheck {
  private readonly parts = new Map<string, string>();
  private readonly buffers = [Buffer.allocUnsafeSlow(CHUNK_BYTES), Buffer.allocUnsafeSlow(CHUNK_BYTES)] as const;

  constructor(
    /** The root directory of the store, as an absolute path without symbolic links. */
    private readonly root: string,
  ) {}

  /**
   * Compares the size and sha-256 of a file with its index line; undefined if both match.
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

  /** Opens a file; undefined if it is missing, or reached through a symbolic link below its part of the store. */
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

  /** Resolves a part of the store, which may be a symbolic link, unless the directory above the part is one. */
  private async resolved(part: string): Promise<string> {
    const known = this.parts.get(part);
    if (known !== undefined) return known;
    const [path, above] = [join(this.root, part), join(this.root, dirname(part))];
    const resolved = (await realpath(above)) === above ? await realpath(path) : path;
    this.parts.set(part, resolved);
    return resolved;
  }
}
