import { lstat, opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode } from '../../../../../common/error-code.js';
import type { LayoutRules, NameRule } from '../../../../domain/layout-names.js';
import type { Entry } from '../../../../application/store-verification/store-view.js';
import { STORE_PARTS } from '../store-directory.js';

/**
 * Walks a top-level directory of the store. Yields the files that the layout allows, each other name as `unknown`, and
 * each directory that can't be read as `unreadable`.
 */
export async function* walkLayout(root: string, { top, directories, isFile }: LayoutRules): AsyncGenerator<Entry> {
  const isDirectory = await lstat(join(root, top)).then((stats) => stats.isDirectory() || isLinkedPart(root, top), (error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  });
  if (isDirectory) yield* walk(root, top, directories, isFile);
  else if (isDirectory === false) yield { type: 'unknown', path: top, name: top };
}

/** Reads names in portions, so that a directory with a million names needs little memory. */
async function* walk(root: string, path: string, directories: readonly NameRule[], isFile: NameRule): AsyncGenerator<Entry> {
  const [isDirectory, ...beneath] = directories;
  try {
    for await (const entry of await opendir(join(root, path), { bufferSize: 1024 })) {
      const { name } = entry;
      const child = `${path}/${name}`;
      if (isDirectory?.(name) && (entry.isDirectory() || (await isLinkedPart(root, child)))) yield* walk(root, child, beneath, isFile);
      else yield { type: !isDirectory && entry.isFile() && isFile(name) ? 'file' : 'unknown', path: child, name };
    }
  } catch (error) {
    // ENOENT: the directory was removed after its name was read.
    if (!hasCode(error, 'ENOENT')) yield { type: 'unreadable', path, name: path, error };
  }
}

/** Whether a part of the store links to a directory. Also true if the target exists but can't be reached. */
const isLinkedPart = async (root: string, path: string): Promise<boolean> =>
  STORE_PARTS.includes(path) && stat(join(root, path)).then((stats) => stats.isDirectory(), (error: unknown) => !hasCode(error, 'ENOENT', 'ENOTDIR'));
