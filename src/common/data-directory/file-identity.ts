import { type BigIntStats, statSync } from 'node:fs';

/** Identifies a file by device and inode. Two files that exist at the same time never share both. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

export const isSameFile = (one: FileIdentity | undefined, other: FileIdentity | undefined): boolean =>
  one?.ino === other?.ino && one?.dev === other?.dev;

/** Follows links; undefined if the path is missing. Other file system errors are thrown. Synchronous: one stat. */
export function statUnlessAbsent(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true });
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return undefined;
    throw error;
  }
}

/** The identity of the file at a path. */
export const fileIdentity: (path: string) => FileIdentity | undefined = statUnlessAbsent;

/**
 * Like `fileIdentity`, but undefined also if the path can't be read: the volume fails, or its directory may not be
 * searched.
 */
export function identityUnlessUnreadable(path: string): FileIdentity | undefined {
  try {
    return statSync(path, { bigint: true });
  } catch {
    return undefined;
  }
}
