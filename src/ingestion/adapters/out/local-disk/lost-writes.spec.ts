import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DataDirectoryView } from '../../../../testing/data-directory.view.js';
import { anUploadDraft, storeUpload } from '../../../../testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from './local-disk.file-storage.adapter.js';
import { NodeDisk } from './node-disk.js';

describe.runIf(process.platform === 'linux')('after the sync of a file system has failed', () => {
  let base: string;
  let view: DataDirectoryView;
  let storage: LocalDiskFileStorage;
  let warnings: string[];

  const open = async (disk = new NodeDisk()) => {
    const logger = { warn: (message: string) => warnings.push(message) };
    // With journals of one byte, each small file has a journal of its own.
    storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, logger, maxJournalBytes: 1 });
  };
  /** Makes the next `sync` command fail as it does when the file system has lost writes. */
  const failNextSync = () => mkdir(join(base, 'failing'));

  beforeEach(async () => {
    warnings = [];
    base = await mkdtemp(join(tmpdir(), 'lost-writes-'));
    view = new DataDirectoryView(join(base, 'data'));
    // The first `sync` command waits until something is written to `held`.
    await promisify(execFile)('mkfifo', [join(base, 'held')]);
    await mkdir(join(base, 'bin'));
    const sync = [
      '#!/bin/sh',
      `if [ "$1" = --version ]; then echo 'sync (GNU coreutils)'; exit; fi`,
      `cd '${base}'`,
      '[ -p held ] && read -r _ < held',
      `if [ -d failing ]; then /bin/rmdir failing; echo 'sync: error syncing: Input/output error' >&2; exit 1; fi`,
      '',
    ];
    await writeFile(join(base, 'bin', 'sync'), sync.join('\n'), { mode: 0o755 });
    vi.stubEnv('PATH', join(base, 'bin'));
    await open();
  });
  afterEach(async () => {
    await storage.close();
    vi.unstubAllEnvs();
    await rm(base, { recursive: true });
  });

  /** Stores two small files, of which each is left in a journal. Resolves to their absolute paths. */
  const leaveTwoJournals = async (): Promise<string[]> => {
    await failNextSync();
    const first = await storeUpload(storage, anUploadDraft().file('first').build());
    // The journal of the first file is full, so that file is synced now. The sync fails when the second file is there.
    const second = await storeUpload(storage, anUploadDraft().file('second').build());
    await writeFile(join(base, 'held'), '\n');
    await rm(join(base, 'held'));
    await storage.close();
    expect(await view.files('pending')).toHaveLength(2);
    expect(warnings).toContainEqual(expect.stringContaining('could not write everything to the disk'));
    return [first, second].map(({ content }) => view.at(content?.path ?? ''));
  };

  it.each([
    ['although a later sync has succeeded', false],
    ['even if its own first sync fails', true],
  ])('the next boot restores the small file that was lost, %s', async (_, failsAtBoot) => {
    const paths = await leaveTwoJournals();
    // The file system has lost the bytes of the second file.
    await truncate(paths[1] ?? '', 0);
    if (failsAtBoot) await failNextSync();
    await open();
    expect(await Promise.all(paths.map((path) => readFile(path, 'utf8')))).toEqual(['first', 'second']);
    expect(await view.files('pending')).toEqual([]);
  });

  it('the next boot restores a small file once more, if a sync of other files fails meanwhile', async () => {
    const paths = await leaveTwoJournals();
    class OthersFail extends NodeDisk {
      private hasFailed = false;
      override lossCount(): number {
        return super.lossCount() + Number(this.hasFailed);
      }
      override async syncFiles(synced: readonly string[]): Promise<void> {
        await super.syncFiles(synced);
        if (this.hasFailed) return;
        this.hasFailed = true;
        for (const path of synced) await truncate(path, 0);
      }
    }
    await open(new OthersFail());
    expect(await Promise.all(paths.map((path) => readFile(path, 'utf8')))).toEqual(['first', 'second']);
    expect(await view.files('pending')).toEqual([]);
  });
});
