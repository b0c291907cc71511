import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileStorageContract } from 'load-data-service/testing/contracts';
import { contentsOf, FolderStorage } from './folder-storage';

// The time limit is long, because a few tests store long files.
jest.setTimeout(60_000);

fileStorageContract(
  'FolderStorage',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'team-'));
    return {
      storage: await FolderStorage.open(folder),
      reopen: () => FolderStorage.open(folder),
      lines: async () => (await contentsOf(folder)).lines,
      contentPaths: async () => (await contentsOf(folder)).paths,
      bytes: (path) => readFile(join(folder, path)).catch(() => null),
      tearDown: () => rm(folder, { recursive: true }),
    };
  },
  { describe, it, beforeEach, afterEach },
);
