import { readFileSync } from 'node:fs';
import { identityUnlessUnreadable } from './file-identity.js';

/** The first byte of a file that SQLite may lock: PENDING_BYTE in SQLite's source. */
const FIRST_LOCKED_BYTE = 0x4000_0000;

/** The id of the process that holds SQLite's write lock on a file, if Linux lists it; not one in another container. */
export function lockHolder(path: string): string | undefined {
  const file = identityUnlessUnreadable(path);
  const locks = textUnlessUnreadable('/proc/locks');
  // A line of /proc/locks: `1: POSIX  ADVISORY  WRITE 4711 fd:01:267384 1073741824 1073742335`: number, kind, mode,
  // access, process id, device and inode, first and last locked byte. The device isn't compared: on an overlay or in a
  // subvolume, `stat` has another device number.
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
