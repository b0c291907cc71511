import { readFile, readdir } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { type SeenLine, toIndexLines } from './index-lines.js';

/** The contents of DATA_DIR, read without the service's code. */
export class DataDirectoryView {
  constructor(readonly directory: string) {}

  /** The parsed lines of all index segments. Throws if an index segment ends in an incomplete line. */
  async lines(): Promise<SeenLine[]> {
    return toIndexLines(await Promise.all((await this.files('uploads')).map((path) => readFile(this.at(path), 'utf8'))));
  }

  contentPaths(): Promise<string[]> {
    return this.files('files');
  }

  async bytes(path: string): Promise<Buffer | null> {
    return (await this.contentPaths()).includes(path) ? readFile(this.at(path)) : null;
  }

  /** The sorted paths, relative to DATA_DIR, of the files at any depth in a subdirectory. */
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
