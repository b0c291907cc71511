import { randomUUID } from 'node:crypto';
import { chmodSync, closeSync, fchmodSync, fsyncSync, linkSync, openSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DataDirectoryError } from '../../../../common/data-directory/data-directory-error.js';
import { statUnlessAbsent } from '../../../../common/data-directory/file-identity.js';
import { makeDirectories } from '../../../../common/data-directory/make-directories.js';
import { hasCode } from '../../../../common/error-code.js';
import { MIB } from '../../../../common/sizes.js';

const OWNER_ONLY = 0o600;
const MAX_BYTES = MIB;

/** Returns the path of `DATA_DIR/identity`, creates it if missing, and makes it accessible to its owner only. */
export function privateDirectory(dataDirectory: string): string {
  const path = join(dataDirectory, 'identity');
  makeDirectories(resolve(dataDirectory));
  makeDirectories(resolve(path), 0o700);
  chmodSync(path, 0o700);
  syncDirectory(dataDirectory);
  return path;
}

/**
 * Reads a file, or creates it with the text of `make`, accessible to its owner only. Simultaneous callers, also in
 * other processes, all get the text of the one that created the file first.
 *
 * @throws DataDirectoryError when the path isn't a regular file of at most 1 MiB; errors of `make` and of the file
 * system.
 */
export async function readOrCreate(path: string, make: () => string | Promise<string>): Promise<string> {
  const existing = readPrivate(path);
  if (existing !== undefined) return existing;
  createOnce(path, await make());
  return readFileSync(path, 'utf8');
}

function readPrivate(path: string): string | undefined {
  try {
    // Only a regular file is read, because reading a FIFO would block forever.
    const stats = statUnlessAbsent(path);
    const problem = stats && (!stats.isFile() ? 'is not a regular file' : stats.size > MAX_BYTES ? 'is larger than 1 MiB' : undefined);
    if (problem !== undefined) throw new DataDirectoryError(`${path} ${problem}: remove it to get a new one, or put the right one back`);
    chmodSync(path, OWNER_ONLY);
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Creates a file, unless it exists. It is never visible without its whole text, because the link is atomic. */
function createOnce(path: string, text: string): void {
  const temporary = `${path}.${randomUUID()}.tmp`;
  const file = openSync(temporary, 'wx', OWNER_ONLY);
  try {
    try {
      fchmodSync(file, OWNER_ONLY);
      writeFileSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    linkSync(temporary, path);
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  } finally {
    unlinkSync(temporary);
  }
  syncDirectory(dirname(path));
}

/** Makes the names in a directory survive a power failure. Does nothing on Windows, which can't open directories. */
export function syncDirectory(path: string): void {
  if (process.platform === 'win32') return;
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
