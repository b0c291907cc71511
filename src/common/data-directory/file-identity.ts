import { type BigIntStats, statSync } from 'node:fs';
import { hasCode } from '../error-code.js';

/** A file's device and inode number. Two files that exist at the same time never have both numbers in common. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/**
 * The status of the file at a path, after following links; undefined if it is missing. Synchronous: one stat.
 *
 * @throws file system errors other than `ENOENT` and `ENOTDIR`.
 */
export function statUnlessAbsent(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/** Like `statUnlessAbsent`, for the identity of a file. */
export const fileIdentity: (path: string) => FileIdentity | undefined = statUnlessAbsent;

/** Like `fileIdentity`, but never throws: undefined also if the path can't be read. */
export function identityUnlessUnreadable(path: string): FileIdentity | undefined {
  try {
    return statSync(path, { bigint: true });
  } catch {
    return undefined;
  }
}

/**
 * Returns a check of whether a path still names `file`, or still no file if `file` is undefined. It never throws: a
 * path that can't be read counts as naming no file. Synchronous: one stat per check.
 */
export const placeCheck = (path: string, file: FileIdentity | undefined) => (): boolean => {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return ino === file?.ino && dev === file.dev;
  } catch {
    return file === undefined;
  }
};
