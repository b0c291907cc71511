import { chmodSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MEMORY = '/dev/shm';
const NEEDED_BYTES = 4 * 1024 ** 3;

/** Whether there is a file system in memory with at least 4 GiB free, where flushing files costs nothing. */
function isMemoryLargeEnough(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= NEEDED_BYTES;
  } catch {
    return false;
  }
}

/**
 * Puts the temporary files of all specs, and of the processes that the specs start, into a file system in memory if
 * possible.
 */
export default function useMemory(): () => void {
  const directory = mkdtempSync(join(isMemoryLargeEnough() ? MEMORY : tmpdir(), 'load-data-tests-'));
  // A spec that runs as root gives up root's right to read any file, and must still be able to enter the directory.
  chmodSync(directory, 0o755);
  process.env.TMPDIR = directory;
  return () => {
    rmSync(directory, { recursive: true, force: true });
  };
}
