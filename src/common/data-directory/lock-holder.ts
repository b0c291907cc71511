import { readFileSync } from 'node:fs';
import { identityUnlessUnreadable } from './file-identity.js';

/** The lowest offset of a byte that SQLite locks in a database file (PENDING_BYTE in SQLite's source). */
const FIRST_LOCKED_BYTE = 0x4000_0000;

/**
 * The id of the process that holds SQLite's write lock on a file; undefined if no process is found. Linux lists the
 * locks, except those of processes in another container. On other systems, the process can't be found.
 */
export function lockHolder(path: string): string | undefined {
  const file = identityUnlessUnreadable(path);
  const locks = textUnlessUnreadable('/proc/locks');
  // A line of /proc/locks is `1: POSIX  ADVISORY  WRITE 4711 fd:01:267384 1073741824 1073742335`: number, kind, mode,
  // access, process id, device and inode, first and last locked byte. The device isn't compared, because /proc/locks
  // has another device number than `stat` for a file on an overlay or in a subvolume.
  const [, pid] = [...locks.matchAll(/^\d+: POSIX +ADVISORY +WRITE (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) (\d+) /gm)].find(
    ([, , inode, first]) => inode === String(file?.ino) && Number(first) >= FIRST_LOCKED_BYTE,
  ) ?? [];
  return pid;
}

function textUnlessUnreadable(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
