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
    // The second file waits while the thread creates the first.
    const outcomes = await Promise.allSettled(['one', 'two'].map((name) => maker.make(at(name), Buffer.from(name))));
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);

    await copyFile(WORKER, at('worker.mjs'));
    await maker.make(at('three'), Buffer.from('three'));
    expect(await readFile(at('three'), 'utf8')).toBe('three');
  });
});
