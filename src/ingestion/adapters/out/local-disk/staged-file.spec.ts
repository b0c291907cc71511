import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MIB } from '../../../../common/sizes.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import type { DiskFile } from './disk.js';
import { NodeDisk } from './node-disk.js';

// These specs have modules of their own: in another spec, a disk that died may have kept blocks for good.
vi.resetModules();
const { BLOCK_BYTES, giveBackBlocks, takeBlocks } = await import('./aligned-blocks.js');
const { writeStagedFile } = await import('./staged-file.js');
const { SpaceReserve } = await import('./space-reserve.js');

/** What is written before the first block. */
const BEGINNING = 4 * MIB;
const BYTES = randomBytes(80 * MIB);

describe('a staged file', () => {
  let directory: string;
  const disk = new NodeDisk();
  const reserve = new SpaceReserve(disk, []);
  const at = (name: string) => join(directory, name);
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'staged-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  async function write(file: DiskFile, size: number, chunkBytes: number): Promise<void> {
    const bytes = BYTES.subarray(0, size);
    try {
      const content = await writeStagedFile(file, chunksOf(bytes, chunkBytes), reserve);
      expect(content).toEqual({ size, sha256: createHash('sha256').update(bytes).digest('hex') });
    } finally {
      await file.close();
    }
  }

  it.each([1, BEGINNING - 1, BEGINNING, BEGINNING + 1, BEGINNING + BLOCK_BYTES, BEGINNING + 9 * BLOCK_BYTES + 1, 80 * MIB].flatMap((size) => [
    [size, 60_001],
    [size, 3 * MIB],
    [size, 80 * MIB],
  ]))('has its %i bytes, which arrive in chunks of %i', async (size, chunkBytes) => {
    await write(await disk.create(at('file')), size, chunkBytes);
    expect((await readFile(at('file'))).equals(BYTES.subarray(0, size))).toBe(true);
  });

  it('has its bytes if more files are written at once than there are blocks for', async () => {
    const names = Array.from({ length: 7 }, (_, index) => `file-${index}`);
    await Promise.all(names.map(async (name, index) => write(await disk.create(at(name)), 6 * MIB + index, 60_001)));
    for (const [index, name] of names.entries()) expect((await readFile(at(name))).equals(BYTES.subarray(0, 6 * MIB + index))).toBe(true);
    expect(blocksOf(5)).toBe(4);
  });

  it.each([
    ['the last write before the first block', (position: number, length: number) => position + length === BEGINNING],
    ['the first block', (position: number) => position === BEGINNING],
  ])('stops reading soon after the failure of %s', async (_, isFailing) => {
    const file = await disk.create(at('file'));
    const write = file.write.bind(file);
    file.write = (chunks, position, areBlocks) => {
      const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
      return isFailing(position, length) ? Promise.reject(new Error('no space')) : write(chunks, position, areBlocks);
    };
    let read = 0;
    const bytes = Readable.from(chunksOf(BYTES, 60_001)).map((chunk: Uint8Array) => {
      read += chunk.length;
      return chunk;
    });
    await expect(writeStagedFile(file, bytes as AsyncIterable<Uint8Array>, reserve)).rejects.toThrow('A staged file could not be written.');
    await file.close();
    expect(read).toBeLessThan(BEGINNING + 4 * BLOCK_BYTES);
    expect(blocksOf(5)).toBe(4);
  });

  it.each(['ends', 'fails'])('waits for the write of each block when its source %s', async (how) => {
    const file = await disk.create(at('file'));
    const write = file.write.bind(file);
    const positions: number[] = [];
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    file.write = async (chunks, position, areBlocks) => {
      positions.push(position);
      if (position === BEGINNING) await released;
      await write(chunks, position, areBlocks);
    };
    let hasSettled = false;
    const writing = writeStagedFile(file, (async function* () {
      yield* chunksOf(BYTES.subarray(0, BEGINNING + BLOCK_BYTES + 1), BEGINNING);
      if (how === 'fails') throw new Error('the client hung up');
    })(), reserve).then(() => 'stored', () => 'failed').finally(() => (hasSettled = true));
    await expect.poll(() => positions).toContain(BEGINNING);
    await nextIteration();
    expect({ blocks: blocksOf(5), positions, hasSettled }).toEqual({ blocks: 3, positions: [0, BEGINNING], hasSettled: false });
    release();
    expect(await writing).toBe(how === 'ends' ? 'stored' : 'failed');
    await file.close();
    expect(blocksOf(5)).toBe(4);
  });

  it('waits for the write before its first block when its source fails', async () => {
    const file = await disk.create(at('file'));
    const write = file.write.bind(file);
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const positions: number[] = [];
    file.write = async (chunks, position) => {
      positions.push(position);
      await released;
      await write(chunks, position);
    };
    let hasSettled = false;
    const writing = writeStagedFile(file, (async function* () {
      yield BYTES.subarray(0, 100_000);
      while (positions.length === 0) await nextIteration();
      throw new Error('the client hung up');
    })(), reserve).catch((error: unknown) => error).finally(() => (hasSettled = true));
    await expect.poll(() => positions).toEqual([0]);
    for (let turn = 0; turn < 10; turn++) await nextIteration();
    expect(hasSettled).toBe(false);
    release();
    expect(await writing).toMatchObject({ message: 'the client hung up' });
    await file.close();
  });

  it('gives its blocks back after the failure of any of its writes and syncs, and after one of its source', async () => {
    const gated = new GatedDisk(disk);
    const attempt = async (bytes: AsyncIterable<Uint8Array>) => {
      const file = await gated.create(at('file'));
      await expect(writeStagedFile(file, bytes, reserve)).rejects.toThrow();
      await file.close();
      await gated.remove(at('file'));
    };
    for (const firstFailing of [1, 41]) {
      let writes = 0;
      gated.gate = (perform, operation) => (operation === 'file.write' && ++writes >= firstFailing ? Promise.reject(new Error('no space')) : perform());
      await attempt(chunksOf(BYTES, 60_001));
      expect(blocksOf(5), `from write ${firstFailing} on`).toBe(4);
    }
    gated.gate = (perform, operation) => (operation === 'file.sync' ? Promise.reject(new Error('lost')) : perform());
    await attempt(chunksOf(BYTES, 60_001));
    gated.gate = (perform) => perform();
    await attempt((async function* () {
      yield* chunksOf(BYTES, 60_001);
      throw new Error('the client hung up');
    })());
    expect(blocksOf(5)).toBe(4);
  });
});

function chunksOf(bytes: Uint8Array, chunkBytes: number): AsyncIterable<Uint8Array> {
  return Readable.from(Array.from({ length: Math.ceil(bytes.length / chunkBytes) }, (_, index) => bytes.subarray(index * chunkBytes, (index + 1) * chunkBytes)));
}

/** How many files of `count` can have blocks at once now. */
function blocksOf(count: number): number {
  const taken = Array.from({ length: count }, takeBlocks).filter((blocks) => blocks !== undefined);
  taken.forEach(giveBackBlocks);
  return taken.length;
}
