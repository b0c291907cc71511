import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DataDirectoryView } from '../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { anUploadDraft, type UploadDraftBuilder, storeUpload } from '../../../../testing/upload-draft.builder.js';
import { ServiceError } from '../../../../common/service-error.js';
import type { StoredUploads } from '../../../application/ports/stored-uploads.port.js';
import type { Upload } from '../../../domain/upload.js';
import { BLOCK_BYTES } from './aligned-blocks.js';
import type { Disk } from './disk.js';
import { LocalDiskFileStorage } from './local-disk.file-storage.adapter.js';
import { NodeDisk } from './node-disk.js';

/**
 * How disk operations go wrong. `fails`: one operation fails without effect. `fails though done`: one fails after its
 * effect. `fails for good`: one and all later ones fail without effect. `dies`: one and all later ones never end.
 */
const FAULTS = ['fails', 'fails though done', 'fails for good', 'dies'] as const;
type Fault = (typeof FAULTS)[number];
const LONGER_THAN_EMPTIED_SEGMENTS_ARE_KEPT_MS = 11 * 60_000;

/**
 * A disk without the command that writes a file system's cached data, because each store that is opened runs it. These
 * tests end stores, but not the machine, so nothing cached is lost.
 */
class ProcessDisk extends NodeDisk {
  override syncFiles(): Promise<void> {
    return Promise.resolve();
  }
}

interface Scenario {
  readonly stored: number;
  readonly maxSegmentBytes: number;
  readonly maxJournalBytes?: number;
  readonly uploads: () => UploadDraftBuilder[];
}

const file = () => anUploadDraft().with({ customerId: 'file' }).file('some ', 'bytes');
/** An upload whose file is too large for a journal, so the file is written to `staging/`. */
const staged = () => anUploadDraft().with({ customerId: 'staged' }).file('x'.repeat(20_000));
/** An upload whose file is so large that it is written to the disk while it arrives. */
const large = () => anUploadDraft().with({ customerId: 'large' }).file('x'.repeat(70_000), 'x');
/** An upload whose file is so large that most of it is written in blocks. */
const inBlocks = () => anUploadDraft().with({ customerId: 'blocks' }).file('x'.repeat(4 * BLOCK_BYTES), 'x'.repeat(2 * BLOCK_BYTES), 'x');
const json = () => anUploadDraft().with({ customerId: 'json', additionalData: 'text' });

const SCENARIOS: Record<string, Scenario> = {
  'a first file': { stored: 0, maxSegmentBytes: 1e6, uploads: () => [file()] },
  'a file after others': { stored: 1, maxSegmentBytes: 1e6, uploads: () => [file()] },
  'a file for which a journal is full': { stored: 3, maxSegmentBytes: 1e6, maxJournalBytes: 1, uploads: () => [file()] },
  'a first large file': { stored: 0, maxSegmentBytes: 1e6, uploads: () => [large()] },
  'a file that is written in blocks': { stored: 1, maxSegmentBytes: 1e6, uploads: () => [inBlocks()] },
  'a staged file after others': { stored: 1, maxSegmentBytes: 1e6, uploads: () => [staged()] },
  'a large file for which a segment is full': { stored: 1, maxSegmentBytes: 1, uploads: () => [large()] },
  'a first upload without a file': { stored: 0, maxSegmentBytes: 1e6, uploads: () => [json()] },
  'an upload without a file after others': { stored: 1, maxSegmentBytes: 1e6, uploads: () => [json()] },
  'a file for which a segment is full': { stored: 1, maxSegmentBytes: 1, uploads: () => [file()] },
  'several at once': { stored: 1, maxSegmentBytes: 1e6, uploads: () => [file(), json(), large(), staged(), json()] },
};

interface Removal {
  /** The uploads in the store. Those to be removed come first. */
  readonly uploads: () => UploadDraftBuilder[];
  /** How many of them are to be removed. */
  readonly removed: number;
  readonly remove: (storedUploads: StoredUploads, firstId: string) => Promise<unknown>;
}

const underKey = () => file().with({ customerId: 'leaving', idempotencyKey: 'key' });
const leaving = () => json().with({ customerId: 'leaving' });

const REMOVALS: Record<string, Removal> = {
  'the only upload of a segment': { uploads: () => [underKey()], removed: 1, remove: (storedUploads, id) => storedUploads.remove(id) },
  'an upload among others': { uploads: () => [underKey(), leaving(), staged()], removed: 1, remove: (storedUploads, id) => storedUploads.remove(id) },
  'the uploads of a customer': { uploads: () => [underKey(), leaving(), file(), json()], removed: 2, remove: (storedUploads) => storedUploads.removeAll({ customerId: 'leaving' }) },
};

describe('faults of the disk', () => {
  let view: DataDirectoryView;
  let disk: GatedDisk;
  let storage: LocalDiskFileStorage;
  let acknowledged: Upload[];
  // The stores that a test leaves on dead disks must not stay in memory because of their intervals.
  beforeEach(() => { vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }); });
  afterEach(() => vi.useRealTimers());

  const open = async (options: { disk?: Disk; maxSegmentBytes?: number; maxJournalBytes?: number } = {}) => {
    storage = await LocalDiskFileStorage.open({
      directory: view.directory,
      logger: { warn: () => undefined },
      maxJournalBytes: 1024,
      disk: new ProcessDisk(),
      ...options,
    });
  };

  const begin = async ({ stored, maxSegmentBytes, maxJournalBytes = 1024 }: Scenario) => {
    view = new DataDirectoryView(await mkdtemp(join(tmpdir(), 'faults-')));
    disk = new GatedDisk(new ProcessDisk());
    acknowledged = [];
    await open({ disk, maxSegmentBytes, maxJournalBytes });
    for (let count = 0; count < stored; count++) await keep(file());
  };

  const keep = async (builder: UploadDraftBuilder) => {
    acknowledged.push(await storeUpload(storage, builder.build()));
  };

  const end = async () => {
    await storage.close();
    // The marker of a segment whose last line was removed stays for some minutes.
    expect((await view.files('pending')).filter((path) => !path.endsWith('.emptied'))).toEqual([]);
    await disk.die();
    await rm(view.directory, { recursive: true });
  };

  /** Injects a fault into the disk operations with these numbers. The first operation from now on has number 1. */
  const arm = (fault: Fault, ...numbers: number[]) => {
    const armed = { reached: false, count: 0, stopped: Promise.resolve() };
    armed.stopped = new Promise((stop) => {
      disk.gate = async (perform) => {
        const count = (armed.count += 1);
        armed.reached ||= count === Math.max(...numbers);
        const lasts = fault === 'fails for good' || fault === 'dies';
        if (!numbers.includes(count) && !(lasts && armed.reached)) return perform();
        if (fault === 'fails though done') await perform();
        if (fault !== 'dies') throw Object.assign(new Error(`ENOSPC: operation ${count}`), { code: 'ENOSPC' });
        stop();
        return new Promise(() => undefined);
      };
    });
    return armed;
  };

  const heal = () => {
    disk.gate = (perform) => perform();
  };

  /**
   * Expects an index line, and the file that it names, for each acknowledged upload. No upload may have only an index
   * line or only a file. With `no others`, there may be no upload that wasn't acknowledged.
   */
  const expectWhole = async (others: 'no others' | 'others whole') => {
    const lines = await view.lines();
    const ids = lines.map((line) => line.upload_id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toEqual(expect.arrayContaining(acknowledged.map(({ uploadId }) => uploadId)));
    if (others === 'no others') expect(ids).toHaveLength(acknowledged.length);
    expect(lines.flatMap((line) => line.content_path ?? []).sort()).toEqual(await view.contentPaths());
    for (const { content_path: path, content_sha256: sha256 } of lines) {
      if (path === null) continue;
      const bytes = (await view.bytes(path)) ?? '';
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256);
    }
    for (const path of await view.files('uploads')) expect(path).toMatch(SEGMENT);
    for (const path of await view.files('files')) expect(path).toMatch(CONTENT);
  };

  /**
   * Stores the uploads of a scenario. Resolves to the number of failed uploads when all have ended or the disk has
   * stopped.
   */
  const store = async (scenario: Scenario, stopped: Promise<void>) => {
    const errors: unknown[] = [];
    const uploads = scenario.uploads().map((builder) => keep(builder).catch((error: unknown) => errors.push(error)));
    await Promise.race([Promise.all(uploads), stopped]);
    for (const error of errors) {
      expect(error).toBeInstanceOf(ServiceError);
      expect(error).toMatchObject({ kind: 'storage-failure' });
    }
    return errors.length;
  };

  /**
   * Runs a test with the fault at the first disk operation, then at the second, and so on, until the test resolves to
   * false because it performs fewer operations. Resolves to the number of operations.
   */
  const atEveryOperation = async (test: (nth: number) => Promise<boolean>) => {
    let nth = 1;
    while (await test(nth)) nth += 1;
    return nth - 1;
  };

  describe.each(Object.entries(SCENARIOS))('%s', (_, scenario) => {
    it.each(['fails', 'fails though done'] as const)('keeps both line and file or neither when an operation %s', async (fault) => {
      let failures = 0;
      const operations = await atEveryOperation(async (nth) => {
        await begin(scenario);
        const armed = arm(fault, nth);
        failures += await store(scenario, armed.stopped);
        await expectWhole('no others');
        heal();
        await keep(file());
        await expectWhole('no others');
        if (nth % 2) await storage.close();
        else await disk.die();
        await open();
        await expectWhole('no others');
        expect(await view.files('staging')).toEqual([]);
        await end();
        return armed.reached;
      });
      expect(operations).toBeGreaterThanOrEqual(3);
      expect(failures).toBeGreaterThanOrEqual(3);
    });

    it('keeps both line and file or neither when the disk fails for a while', async () => {
      await atEveryOperation(async (nth) => {
        await begin(scenario);
        const armed = arm('fails for good', nth);
        await store(scenario, armed.stopped);
        heal();
        await keep(file());
        await storage.close();
        await open();
        await expectWhole('no others');
        await end();
        return armed.reached;
      });
    });

    it.each(['fails for good', 'dies'] as const)('keeps both line and file or neither when the disk %s before a crash', async (fault) => {
      await atEveryOperation(async (nth) => {
        await begin(scenario);
        const armed = arm(fault, nth);
        await store(scenario, armed.stopped);
        await disk.die();
        await open();
        await expectWhole('others whole');
        expect(await view.files('staging')).toEqual([]);
        await keep(file());
        await expectWhole('others whole');
        await end();
        return armed.reached;
      });
    });
  });

  describe.each(Object.entries(REMOVALS))('a removal of %s', (_, { uploads, removed, remove }) => {
    let kept: Upload[];
    /** Stores the uploads, and injects a fault into a removal. */
    const beginRemoval = async (fault: Fault, nth: number) => {
      await begin({ stored: 0, maxSegmentBytes: 1e6, uploads: () => [] });
      await storage.eventOutbox.open();
      for (const builder of uploads()) await keep(builder);
      kept = acknowledged.slice(removed);
      return arm(fault, nth);
    };
    const removeAs = (stopped: Promise<void>) => {
      const removing = remove(storage.storedUploads, acknowledged[0]?.uploadId ?? '').then(() => true, (error: unknown) => {
        expect(error).toMatchObject({ kind: 'storage-failure' });
        return false;
      });
      return Promise.race([removing, stopped]);
    };
    /** Expects that no line names a file that is missing, and the uploads that weren't to be removed are whole. */
    const expectNoHalf = async () => {
      const lines = await view.lines();
      expect(lines.map((line) => line.upload_id)).toEqual(expect.arrayContaining(kept.map(({ uploadId }) => uploadId)));
      expect(await view.contentPaths()).toEqual(expect.arrayContaining(lines.flatMap((line) => line.content_path ?? [])));
    };
    /** Repeats the removal, and expects that nothing is left of the uploads but one event of each removal. */
    const expectGone = async () => {
      const gone = acknowledged.slice(0, removed);
      await remove(storage.storedUploads, gone[0]?.uploadId ?? '');
      acknowledged = kept;
      await expectWhole('no others');
      const told: string[] = [];
      for (let batch = await storage.eventOutbox.next(500); batch; batch = await storage.eventOutbox.next(500)) {
        told.push(...batch.events.map((event) => (event.type === 'removed' ? `${event.uploadId} removed` : event.upload.uploadId)));
        await batch.confirm();
      }
      expect(told.sort()).toEqual([...gone.map(({ uploadId }) => `${uploadId} removed`), ...kept.map(({ uploadId }) => uploadId)].sort());
      for (const builder of uploads().slice(0, removed)) await keep(builder);
      await expectWhole('no others');
    };

    it.each(['fails', 'fails though done', 'fails for good'] as const)('leaves no line without its file when an operation %s, and nothing when it is repeated', async (fault) => {
      let failures = 0;
      const operations = await atEveryOperation(async (nth) => {
        const armed = await beginRemoval(fault, nth);
        if ((await removeAs(armed.stopped)) === false) failures += 1;
        await expectNoHalf();
        heal();
        await expectGone();
        if (nth % 2) await storage.close();
        else await disk.die();
        await open();
        await expectWhole('no others');
        await end();
        return armed.reached;
      });
      expect(operations).toBeGreaterThan(20);
      expect(failures).toBeGreaterThan(10);
    });

    it.each(FAULTS)('leaves each upload whole or gone when an operation %s before a crash', async (fault) => {
      await atEveryOperation(async (nth) => {
        const armed = await beginRemoval(fault, nth);
        const outcome = await removeAs(armed.stopped);
        await disk.die();
        await expectNoHalf();
        await open();
        const all = acknowledged;
        acknowledged = kept;
        await expectWhole(outcome === true ? 'no others' : 'others whole');
        expect(await view.files('staging')).toEqual([]);
        acknowledged = all;
        await expectGone();
        await end();
        return armed.reached;
      });
    });
  });

  it.each(FAULTS)('removes an emptied segment at a later start, and nothing else, when an operation %s at the start that is due to remove it', async (fault) => {
    const operations = await atEveryOperation(async (nth) => {
      await begin({ stored: 1, maxSegmentBytes: 1e6, uploads: () => [] });
      await storage.storedUploads.remove(acknowledged.pop()?.uploadId ?? '');
      await keep(file());
      await storage.close();
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + LONGER_THAN_EMPTIED_SEGMENTS_ARE_KEPT_MS });
      expect(await view.files('uploads')).toHaveLength(2);
      const armed = arm(fault, nth);
      await Promise.race([open({ disk }).catch(() => undefined), armed.stopped]);
      await disk.die();
      await open();
      expect(await view.files('uploads')).toHaveLength(1);
      expect(await view.files('pending')).toEqual([]);
      await expectWhole('no others');
      await end();
      vi.useRealTimers();
      return armed.reached;
    });
    expect(operations).toBeGreaterThan(10);
  });

  it.each([
    ['small', file],
    ['large', large],
  ])('keeps both line and file or neither of a %s file when any two operations fail', async (_, one) => {
    const scenario = { stored: 1, maxSegmentBytes: 1e6, uploads: () => [one()] };
    const operations = await atEveryOperation(async (first) => {
      let firstReached = false;
      await atEveryOperation(async (distance) => {
        await begin(scenario);
        const armed = arm('fails', first, first + distance);
        await store(scenario, armed.stopped);
        await disk.die();
        await open();
        await expectWhole('no others');
        await end();
        firstReached ||= armed.count >= first;
        return armed.reached;
      });
      return firstReached;
    });
    expect(operations).toBeGreaterThan(8);
  });

  it.each([
    ['when a marker is set instead', 'large', large, 'rename', ['file.sync', 'file.truncate'], 'no others'],
    ['when no marker can be set either', 'large', large, 'rename', ['file.sync', 'file.truncate', 'link'], 'others whole'],
    ['when a marker is set instead', 'small', file, 'create', ['file.sync', 'file.truncate'], 'no others'],
    ['when no marker can be set either', 'small', file, 'create', ['file.sync', 'file.truncate', 'link'], 'others whole'],
  ] as const)('never separates a line from its file when the bytes of a failed flush cannot be cut off, %s (%s file)', async (_, __, one, holding, failing, others) => {
    await begin({ stored: 1, maxSegmentBytes: 1e6, uploads: () => [] });
    const held = disk.holdNext(holding);
    const storing = keep(one());
    await held.reached;
    disk.gate = (perform, operation) =>
      failing.some((name) => name === operation) ? Promise.reject(new Error('ENOSPC')) : perform();
    held.release();
    await expect(storing).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect(keep(json())).rejects.toMatchObject({ kind: 'storage-failure' });
    await disk.die();
    await open();
    await expectWhole(others);
    await end();
  });

  it.each(FAULTS)('loses nothing when an operation during close %s', async (fault) => {
    const scenario = { stored: 2, maxSegmentBytes: 1e6, uploads: () => [] };
    const operations = await atEveryOperation(async (nth) => {
      await begin(scenario);
      const armed = arm(fault, nth);
      await Promise.race([storage.close(), armed.stopped]);
      await disk.die();
      await open();
      await expectWhole('no others');
      await end();
      return armed.reached;
    });
    expect(operations).toBeGreaterThanOrEqual(9);
  });
});

const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}';
const SEGMENT = new RegExp(`^uploads/kind=(historical|nowcast)/date=\\d{4}-\\d\\d-\\d\\d/${UUID}\\.ndjson$`);
const CONTENT = new RegExp(`^files/kind=(historical|nowcast)/customer_id=\\w+/date=\\d{4}-\\d\\d-\\d\\d/${UUID}\\.csv$`);
