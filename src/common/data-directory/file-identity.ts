import { type BigIntStats, statSync } from 'node:fs';

/** What a path names: a file by its device and inode. Two files that exist at the same time never share both. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** The identity of what a path names, links followed; undefined where there is nothing. Synchronous: one stat. */
export function fileIdentity(path: string): FileIdentity | undefined {
  return statUnlessAbsent(path);
}

export const isSameFile = (one: FileIdentity | undefined, other: FileIdentity | undefined): boolean =>
  one?.ino === other?.ino && one?.dev === other?.dev;

/** Links followed; undefined where there is nothing. Throws everything else that the file system throws. */
export function statUnlessAbsent(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true });
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return undefined;
    throw error;
  }
}
