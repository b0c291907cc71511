import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DiskOperation, GatedDisk } from '../../../../testing/gated-disk.js';
import { DurableDirectories, makeRoot } from './durable-directories.js';

describe('DurableDirectories', () => {
  let base: string;
  let operations: string[];
  let disk: GatedDisk;
  let directories: DurableDirectories;

  const at = (path: string) => join(base, path);
  const done = () => operations.splice(0);
  const isHere = { assertHere: () => undefined };
  const open = (root: string) => new DurableDirectories(disk, at(root), isHere);

  beforeEach(async () => {
    base = await mkdtemp(join(tmpdir(), 'directories-'));
    operations = [];
    disk = new GatedDisk();
    disk.gate = (perform, operation, path) => {
      operations.push(`${operation} ${relative(base, path)}`);
      return perform();
    };
    directories = open('root');
  });
  afterEach(() => rm(base, { recursive: true }));

  it('creates each directory and syncs its parent once, from the top down', async () => {
    await makeRoot(disk, at('root'));
    await directories.ensure(at('root/a/b'));
    const expected = ['makeDirectory root', 'syncDirectory '];
    expected.push('makeDirectory root/a', 'syncDirectory root', 'makeDirectory root/a/b', 'syncDirectory root/a');
    expect(done()).toEqual(expected);

    await directories.ensure(at('root/a/c'));
    await directories.ensure(at('root/a/b'));
    expect(done()).toEqual(['makeDirectory root/a/c', 'syncDirectory root/a']);
  });

  it('also syncs the parents of existing directories, because their creator may not have done so', async () => {
    await makeRoot(disk, at('root'));
    await directories.ensure(at('root/a'));
    done();
    await makeRoot(disk, at('root'));
    await open('root').ensure(at('root/a'));
    expect(done()).toEqual(['makeDirectory root', 'syncDirectory ', 'makeDirectory root/a', 'syncDirectory root']);
  });

  it('creates the missing directories above its root', async () => {
    await makeRoot(disk, at('x/y/root'));
    expect(done().filter((operation) => operation.startsWith('sync'))).toEqual([
      'syncDirectory ',
      'syncDirectory x',
      'syncDirectory x/y',
    ]);
    expect(await readdir(at('x/y'))).toEqual(['root']);
  });

  it('needs no permission above a root that exists', async () => {
    await makeRoot(disk, at('root'));
    const { gate } = disk;
    disk.gate = (perform, operation, path) =>
      operation === 'syncDirectory' && path === base
        ? Promise.reject(Object.assign(new Error('EACCES'), { code: 'EACCES' }))
        : gate(perform, operation, path);
    await makeRoot(disk, at('root'));
    await rm(at('root'), { recursive: true });
    await expect(makeRoot(disk, at('root'))).rejects.toThrow('EACCES');
  });

  it('creates a directory once for simultaneous callers', async () => {
    await makeRoot(disk, at('root'));
    done();
    await Promise.all([directories.ensure(at('root/a')), directories.ensure(at('root/a'))]);
    expect(done()).toHaveLength(2);
  });

  it('retries after a failure', async () => {
    await makeRoot(disk, at('root'));
    disk.failNext('syncDirectory');
    await expect(directories.ensure(at('root/a'))).rejects.toThrow('EIO');
    done();
    await directories.ensure(at('root/a'));
    expect(done()).toEqual(['makeDirectory root/a', 'syncDirectory root']);
  });

  it('recreates a missing directory for an action, and repeats the action once', async () => {
    await makeRoot(disk, at('root'));
    await directories.ensure(at('root/a'));
    await rm(at('root/a'), { recursive: true });
    const file = await directories.within(at('root/a'), () => disk.create(at('root/a/file')));
    await file.close();
    expect(await readdir(at('root/a'))).toEqual(['file']);
    await expect(directories.within(at('root/a'), () => disk.open(at('root/a/missing')))).rejects.toThrow('ENOENT');
    await expect(directories.within(at('root/a'), () => disk.create(at('root/a/file')))).rejects.toThrow('EEXIST');
  });

  describe('while empty directories are removed', () => {
    const [a, b, file] = ['root/a', 'root/a/b', 'root/a/b/file'];
    /** Creates a file in a directory that is known, and that was removed in the meantime. */
    const createFile = async (): Promise<void> => (await directories.within(at(b), () => disk.create(at(file)))).close();
    /** As `createFile`. Resolves when the action has failed for the first time. */
    const beginToCreateFile = async (): Promise<{ created: Promise<void> }> => {
      let created = Promise.resolve();
      await new Promise<void>((resolve) => {
        const { gate } = disk;
        disk.gate = (perform, operation, path) => gate(operation === 'create' ? () => perform().finally(resolve) : perform, operation, path);
        created = createFile();
      });
      await nextIteration();
      return { created };
    };
    /** Holds the next operation with this name on a path. `reached` resolves when the wait begins. */
    const hold = (name: DiskOperation, path: string) => {
      const held = disk.holdNext(name);
      const { gate } = disk;
      disk.gate = (perform, operation, on) => {
        if (operation === name && on === at(path)) return gate(perform, operation, on);
        operations.push(`${operation} ${relative(base, on)}`);
        return perform();
      };
      return held;
    };

    beforeEach(async () => {
      await makeRoot(disk, at('root'));
      await directories.ensure(at(b));
      await rm(at(b), { recursive: true });
      done();
    });

    it('takes no directory away from an action that is being repeated in it', async () => {
      const held = hold('makeDirectory', b);
      const created = createFile();
      await held.reached;
      done();
      const removed = directories.removeEmpty(at(a));
      await nextIteration();
      expect(done()).toEqual([]);
      held.release();
      await Promise.all([created, removed]);
      expect(await readdir(at(b))).toEqual(['file']);
    });

    it('repeats an action only after the removal in progress, and creates what is missing then', async () => {
      const held = hold('removeEmptyDirectory', a);
      const removed = directories.removeEmpty(at(a));
      await held.reached;
      const { created } = await beginToCreateFile();
      expect(done()).toEqual([`create ${file}`]);
      held.release();
      await Promise.all([created, removed]);
      expect(await readdir(at(b))).toEqual(['file']);
    });

    it('repeats an action without what another call has found before a removal', async () => {
      const removing = hold('removeEmptyDirectory', a);
      const removed = directories.removeEmpty(at(a));
      await removing.reached;
      const { created } = await beginToCreateFile();
      const syncing = hold('syncDirectory', 'root');
      const other = directories.within(at('root/a/c'), () => Promise.resolve());
      await syncing.reached;
      removing.release();
      await removed;
      syncing.release();
      await Promise.all([created, other]);
      expect((await readdir(at(a))).sort()).toEqual(['b', 'c']);
    });

    it('goes on after a removal has failed', async () => {
      disk.failNext('removeEmptyDirectory');
      await expect(directories.removeEmpty(at(a))).rejects.toThrow('EIO');
      await createFile();
      expect(await readdir(at(b))).toEqual(['file']);
    });
  });

  it('never recreates its root, and creates nothing in a root that was replaced', async () => {
    await makeRoot(disk, at('root'));
    await directories.ensure(at('root/a'));
    await rm(at('root'), { recursive: true });
    await expect(directories.within(at('root/a'), () => disk.create(at('root/a/file')))).rejects.toThrow('ENOENT');
    expect(await readdir(base)).toEqual([]);

    await makeRoot(disk, at('root'));
    const away = new DurableDirectories(disk, at('root'), {
      assertHere: () => {
        throw new Error('away');
      },
    });
    await expect(away.ensure(at('root/a'))).rejects.toThrow('away');
    expect(await readdir(at('root'))).toEqual([]);
  });

  it('lets callers that arrive during a sync share the next one, not the one in progress', async () => {
    const held = disk.holdNext('syncDirectory');
    const first = directories.sync(base);
    await held.reached;
    const later = [1, 2, 3].map(() => directories.sync(base));
    let laterDone = false;
    void Promise.race(later).then(() => (laterDone = true));
    await directories.sync(tmpdir());
    expect(laterDone).toBe(false);
    held.release();
    await Promise.all([first, ...later]);
    expect(operations.filter((operation) => operation === 'syncDirectory ')).toHaveLength(2);
    await directories.sync(base);
    expect(operations.filter((operation) => operation === 'syncDirectory ')).toHaveLength(3);
    await Promise.all([1, 2, 3].map(() => directories.sync(base)));
    expect(operations.filter((operation) => operation === 'syncDirectory ')).toHaveLength(5);
  });

  it('rejects the callers that waited for a failed sync, and no others', async () => {
    const held = disk.holdNext('syncDirectory');
    const first = directories.sync(base);
    await held.reached;
    const error = disk.failNext('syncDirectory');
    const shared = [directories.sync(base), directories.sync(base)];
    const outcomes = Promise.allSettled(shared);
    held.release();
    await first;
    expect(await outcomes).toEqual([{ status: 'rejected', reason: error }, { status: 'rejected', reason: error }]);
    await directories.sync(base);
  });
});
