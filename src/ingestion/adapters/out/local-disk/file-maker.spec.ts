import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FileMaker, MakerThreads } from './file-maker.js';

const WORKER = new URL('./file-maker.worker.mjs', import.meta.url);

describe('FileMaker', () => {
  let directory: string;
  const at = (name: string) => join(directory, name);

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'file-maker-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  it.each([
    ['does not load', "import './absent.mjs';"],
    ['dies as it starts', "throw new Error('lost');"],
    ['dies while it has files to create', "import { parentPort } from 'node:worker_threads'; parentPort.on('message', () => { throw new Error('lost'); });"],
  ])('rejects the waiting files when its thread %s, and creates the next file in a new thread', async (_, broken) => {
    await writeFile(at('worker.mjs'), broken);
    const maker = new FileMaker(new MakerThreads(pathToFileURL(at('worker.mjs'))));
    // The second file waits while the worker thread creates the first.
    const outcomes = await Promise.allSettled(['one', 'two'].map((name) => maker.make(at(name), Buffer.from(name))));
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);

    await copyFile(WORKER, at('worker.mjs'));
    await maker.make(at('three'), Buffer.from('three'));
    expect(await readFile(at('three'), 'utf8')).toBe('three');
  });

  it('creates files in a new thread when its idle thread has died', async () => {
    await writeFile(
      at('worker.mjs'),
      `import { existsSync } from 'node:fs';
      import { parentPort } from 'node:worker_threads';
      parentPort.on('message', () => { parentPort.postMessage(new Map()); });
      setInterval(() => { if (existsSync(${JSON.stringify(at('end'))})) throw new Error('lost'); }, 5);`,
    );
    const maker = new FileMaker(new MakerThreads(pathToFileURL(at('worker.mjs'))));
    await maker.make(at('one'), Buffer.from('one'));
    // Lets the worker thread die only after it has answered, because the news of its error may overtake its answer.
    await writeFile(at('end'), '');
    await copyFile(WORKER, at('worker.mjs'));
    // The dying worker thread may still take the file without creating it, so creating it is tried until it succeeds.
    const isMade = () => maker.make(at('two'), Buffer.from('two')).then(() => existsSync(at('two')), () => false);
    await expect.poll(isMade, { timeout: 10_000 }).toBe(true);
  });

  it('uses a thread that another has left idle, and its own beside another', async () => {
    await writeFile(
      at('worker.mjs'),
      `import { writeFileSync } from 'node:fs';
      import { parentPort, threadId } from 'node:worker_threads';
      parentPort.on('message', ({ files: [{ path }] }) => {
        writeFileSync(path, String(threadId));
        parentPort.postMessage(new Map());
      });`,
    );
    const threads = new MakerThreads(pathToFileURL(at('worker.mjs')));
    const makers = [new FileMaker(threads), new FileMaker(threads)];
    const threadOf = async (maker: FileMaker | undefined, name: string): Promise<string> => {
      await maker?.make(at(name), Buffer.from(name));
      return readFile(at(name), 'utf8');
    };
    const [first, second] = [await threadOf(makers[0], 'one'), await threadOf(makers[1], 'two')];
    expect(second).toBe(first);
    const both = await Promise.all([threadOf(makers[0], 'three'), threadOf(makers[1], 'four')]);
    expect(new Set(both).size).toBe(2);
  });
});
