import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { hasCode } from '../error-code.js';
import { DataDirectoryError } from './data-directory-error.js';
import { statUnlessAbsent } from './file-identity.js';

/**
 * Creates a directory and its missing parents. If an existing parent doesn't accept a new directory, throws the error
 * of that attempt, for example `EROFS`, where Node's recursive `mkdir` throws `ENOENT`.
 *
 * @param mode the permissions of the directory itself, if it is created.
 * @throws DataDirectoryError when the path names something other than a directory, or when the path or one of its
 * parents is a dangling link; file system errors.
 */
export function makeDirectories(path: string, mode?: number): void {
  try {
    mkdirSync(path, mode);
  } catch (error) {
    if (hasCode(error, 'ENOENT') && dirname(path) !== path && !statUnlessAbsent(dirname(path))) {
      makeDirectories(dirname(path));
      makeDirectories(path, mode);
    } else if (hasCode(error, 'EEXIST')) {
      assertDirectory(path);
    } else {
      throw error;
    }
  }
}

/**
 * Must be called only for a path that exists, if only as a dangling link.
 *
 * @throws DataDirectoryError when the path names a file or a dangling symbolic link instead of a directory; file system
 * errors.
 */
export function assertDirectory(path: string): void {
  const stats = statUnlessAbsent(path);
  if (!stats) throw new DataDirectoryError(`${path} is a symbolic link to nothing: make the directory that it names, or remove it`);
  if (!stats.isDirectory()) throw new DataDirectoryError(`${path} is not a directory: move it away, or set DATA_DIR to another directory`);
}
