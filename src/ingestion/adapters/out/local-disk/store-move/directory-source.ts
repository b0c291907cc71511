import { join, resolve } from 'node:path';
import type { SourceLine, StoreSource } from '../../../../application/store-move/store-source.js';
import { dayIn, SEGMENTS } from '../../../../domain/layout-names.js';
import { linesDirectory } from '../../../../domain/layout.js';
import { UPLOAD_KINDS } from '../../../../domain/upload.js';
import { unlessAbsent } from '../disk-error.js';
import type { Disk } from '../disk.js';
import { NEWLINE_BYTES, readLines } from '../index-lines.js';
import { NodeDisk } from '../node-disk.js';
import { readStoreId } from '../store-id.js';
import { FileBytes } from '../stored-uploads/file-bytes.js';

/** Opens the store in a DATA_DIR as the source of a move; undefined if the directory has no valid store id. */
export async function openDirectorySource(directory: string): Promise<StoreSource | undefined> {
  const disk = new NodeDisk();
  const root = resolve(directory);
  const storeId = await readStoreId(disk, root);
  return storeId === undefined ? undefined : new DirectorySource(storeId, disk, root);
}

/** Reads a store without taking its lock: a service may be running on it. */
class DirectorySource implements StoreSource {
  constructor(
    readonly storeId: string,
    private readonly disk: Disk,
    private readonly root: string,
  ) {}

  async *lines(): AsyncGenerator<SourceLine> {
    for await (const segment of this.segments()) yield* this.linesOf(segment);
  }

  async openContent(path: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const file = await unlessAbsent(this.disk.open(join(this.root, path)));
    return file && new FileBytes(file, 0, await file.size());
  }

  hasContent(path: string): Promise<boolean> {
    return this.disk.isNameTaken(join(this.root, path));
  }

  private async *segments(): AsyncGenerator<string> {
    for (const kind of UPLOAD_KINDS) {
      const days = await this.disk.readDirectory(join(this.root, linesDirectory(kind)));
      for (const day of days.filter((name) => dayIn(name) !== undefined).sort()) {
        const directory = `${linesDirectory(kind)}/${day}`;
        // The directory of a day may be gone by now: it is removed with its last segment (file of index lines).
        const names = await unlessAbsent(this.disk.readDirectory(join(this.root, directory)));
        for (const name of (names ?? []).filter(SEGMENTS.isFile).sort()) yield `${directory}/${name}`;
      }
    }
  }

  private async *linesOf(segment: string): AsyncGenerator<SourceLine> {
    const file = await unlessAbsent(this.disk.open(join(this.root, segment)));
    if (!file) return;
    try {
      const size = await file.size();
      let number = 0;
      let length = 0;
      for await (const line of readLines(file, 0, size, () => undefined)) {
        length += line.length + 1;
        yield { segment, number: ++number, bytes: Buffer.concat([line, NEWLINE_BYTES]) };
      }
      // A last line without bytes stands for all that `readLines` omits: an unterminated end, and foreign long lines.
      if (length < size) yield { segment, number: number + 1, bytes: undefined };
    } finally {
      await file.close();
    }
  }
}
