import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode } from '../disk-error.js';
import type { FindingKind } from './finding.js';

const CHUNK_BYTES = 512 * 1024;

/** Nothing is followed, waited for or changed. */
export const READ_ONLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

interface Expected {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
}

export interface ContentProblem {
  readonly kind: Extract<FindingKind, 'bytes-absent' | 'bytes-size' | 'bytes-digest'>;
  readonly detail: string;
}

/** Compares files with what their lines say, one at a time, in two buffers of its own. */
export class ContentCheck {
  private readonly buffers = [Buffer.allocUnsafeSlow(CHUNK_BYTES), Buffer.allocUnsafeSlow(CHUNK_BYTES)] as const;

  constructor(
    /** Absolute, without symbolic links. */
    private readonly root: string,
    private readonly onBytes: (count: number) => void,
  ) {}

  /** @throws what the file system throws when the file is there and can't be read. */
  async check(expected: Expected): Promise<ContentProblem | undefined> {
    const path = join(this.root, expected.path);
    const file = await openPlain(path);
    if (!file) return { kind: 'bytes-absent', detail: 'the file is absent' };
    try {
      const stats = await file.stat();
      if (!stats.isFile()) return { kind: 'bytes-absent', detail: 'there is no plain file' };
      if (stats.size !== expected.size) {
        return { kind: 'bytes-size', detail: `the file has ${stats.size} bytes, its line says ${expected.size}` };
      }
      const sha256 = await this.sha256(file);
      if (sha256 === expected.sha256) return undefined;
      return { kind: 'bytes-digest', detail: `the file has sha-256 ${sha256}, its line says ${expected.sha256}` };
    } finally {
      await file.close();
    }
  }

  /** Reads a chunk while the one before it is hashed. */
  private async sha256(file: FileHandle): Promise<string> {
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
      this.onBytes(bytesRead);
    }
  }
}

/** Undefined where there is nothing, or a symbolic link on the way to it. */
async function openPlain(path: string): Promise<FileHandle | undefined> {
  try {
    return (await realpath(path)) === path ? await open(path, READ_ONLY) : undefined;
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'ENXIO')) return undefined;
    throw error;
  }
}
