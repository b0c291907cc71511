import { type BigIntStats, statSync } from 'node:fs';

/** Identifies a file by device and inode. Two files that exist at the same time never share both. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/**
 * The status of the file at a path, after following links. Undefined if the file is missing (`ENOENT`, `ENOTDIR`).
 * Throws other file system errors. Synchronous: one stat.
 */
export function statUnlessAbsent(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return undefined;
    throw error;
  }
}

/** Whether an error of the file system means that a path leads through symbolic links in a circle. */
export const isCircleOfLinks = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ELOOP';

/**
 * The identity of the file at a path, after following links. Undefined if the file is missing (`ENOENT`, `ENOTDIR`).
 * Throws other file system errors. Synchronous: one stat.
 */
export const fileIdentity: (path: string) => FileIdentity | undefined = statUnlessAbsent;

/**
 * The identity of the file at a path, after following links. Never throws: undefined if the file is missing, and also
 * if the path can't be read because the volume fails or the process is not allowed to search a directory. Synchronous:
 * one stat.
 */
export function identityUnlessUnreadable(path: string): FileIdentity | undefined {
  try {
    return statSync(path, { bigint: true });
  } catch {
    return undefined;
  }
}

/**
 * Returns a function that checks whether a path still names `file`, after following links; or, if `file` is undefined,
 * whether the path still names no file. The check never throws: a path that can't be read counts as naming no file.
 * Synchronous: one stat per check.
 */
export const placeCheck = (path: string, file: FileIdentity | undefined) => (): boolean => {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return ino === file?.ino && dev === file.dev;
  } catch {
    return file === undefined;
  }
};
