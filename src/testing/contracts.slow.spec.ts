import { describe, expect, it } from 'vitest';
import { CollectingRunner } from '../../test/support/collecting-runner.js';
import { indexLine } from '../ingestion/domain/layout.js';
import { fileStorageContract } from './contracts.js';
import { InMemoryFileStorage } from './in-memory.file-storage.js';

describe('the suite of FileStorage', () => {
  it('fails for a store that collects files in memory', async () => {
    const runner = new CollectingRunner();
    fileStorageContract(
      'collecting',
      () => {
        const storage = new InMemoryFileStorage();
        return Promise.resolve({
          storage,
          reopen: () => Promise.resolve(storage),
          lines: () => Promise.resolve(storage.uploads.map((upload) => JSON.parse(indexLine(upload)) as object)),
          bytes: (path) => Promise.resolve(storage.bytes(path)),
          contentPaths: () => Promise.resolve(storage.uploads.flatMap(({ content }) => content?.path ?? [])),
          tearDown: () => Promise.resolve(),
        });
      },
      runner,
    );
    const failures = await runner.failures();
    expect([...failures.keys()]).toEqual(['holds at most 96 MiB of a file of 160 MiB in memory']);
    expect([...failures.values()]).toEqual([expect.stringMatching(/reads no faster than it writes[^]*collect none\.\n\nError: After \d+ MiB of a file of 160 MiB, \d+ MiB are held/)]);
  });
});
