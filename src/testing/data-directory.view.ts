import { readFile, readdir } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { type SeenLine, toIndexLines } from './index-lines.js';

/** The contents of a DATA_DIR, read without the service. */
export class DataDirectoryView {
  constructor(readonly directory: string) {}

  /** All index lines, parsed. Throws if a segment ends in a torn line. */
  async lines(): Promise<SeenLine[]> {
    return toIndexLines(await Promise.all((await this.files('uploads')).map((path) => readFile(this.at(path), 'utf8'))));
  }

  contentPaths(): Promise<string[]> {
    return this.files('files');
  }

  /** The bytes of a file at a content path; null if there is no such file. */
  async bytes(path: string): Promise<Buffer | null> {
    return (await this.contentPaths()).includes(path) ? readFile(this.at(path)) : null;
  }

  /** The paths of everything below a directory of DATA_DIR, except directories. The paths are relative to DATA_DIR. */
  async files(name: string): Promise<string[]> {
    const entries = await readdir(this.at(name), { withFileTypes: true, recursive: true });
    return entries
      .filter((entry) => !entry.isDirectory())
      .map((entry) => relative(this.directory, join(entry.parentPath, entry.name)).replaceAll(sep, '/'))
      .sort();
  }

  at(path: string): string {
    return join(this.directory, path);
  }
}
