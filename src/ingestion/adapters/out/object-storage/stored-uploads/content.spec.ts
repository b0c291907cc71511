import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { deferred } from '../../../../../../test/support/deferred.js';
import { KIB } from '../../../../../common/sizes.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import type { ByteRange } from '../bucket.js';
import { openFile } from './content.js';

const PATH = 'files/file.bin';
const PAUSE_MS = 5_000;
const KEPT = 128;
const bytes = randomBytes(256 * KIB);

/** A bucket that notes each range that is opened, and counts the connections that aren't closed yet. */
class ConnectedBucket extends InMemoryBucket {
  readonly opened: (ByteRange | undefined)[] = [];
  connections = 0;
  /** Awaited before each piece of the objects that are opened meanwhile. */
  gate: Promise<void> | undefined;

  override async open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    const pieces = (await super.open(key, range))?.[Symbol.asyncIterator]();
    if (!pieces) return undefined;
    this.opened.push(range);
    this.connections += 1;
    const closed = (): void => {
      this.connections -= isClosed ? 0 : 1;
      isClosed = true;
    };
    let isClosed = false;
    const { gate } = this;
    const next = async () => {
      await gate;
      const piece = await pieces.next();
      if (piece.done) closed();
      return piece;
    };
    const end = () => {
      closed();
      return Promise.resolve({ done: true, value: undefined } as const);
    };
    return { [Symbol.asyncIterator]: () => ({ next, return: end }) };
  }
}

let bucket: ConnectedBucket;
let downloads: AsyncIterator<Uint8Array>[];
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  bucket = new ConnectedBucket();
  downloads = [];
  await bucket.create(PATH, bytes);
});
afterEach(async () => {
  for (const download of downloads) await download.return?.();
  expect(bucket.connections).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

async function begin(range?: ByteRange): Promise<AsyncIterator<Uint8Array>> {
  const download = (await openFile(bucket, PATH, range, bytes.length))?.[Symbol.asyncIterator]();
  if (!download) throw new Error('The file was not found.');
  downloads.push(download);
  return download;
}

/** Begins downloads whose clients pause after the first piece, or before it. Returns their pieces. */
async function pausing(count: number, isBegun = true): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  for (let index = 0; index < count; index++) {
    const download = await begin();
    if (isBegun) pieces.push((await download.next()).value as Uint8Array);
  }
  return pieces;
}

async function rest(download: AsyncIterator<Uint8Array> | undefined): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for (let next = await download?.next(); next && !next.done; next = await download?.next()) pieces.push(next.value);
  return Buffer.concat(pieces);
}

it.each([['after', true], ['before', false]] as const)('keeps 128 connections to the store of 178 downloads whose clients pause %s the first piece, and sends all bytes', async (_, isBegun) => {
  const pieces = await pausing(KEPT + 50, isBegun);
  vi.advanceTimersByTime(PAUSE_MS - 1);
  expect(bucket.connections).toBe(KEPT + 50);
  vi.advanceTimersByTime(1);
  expect(bucket.connections).toBe(KEPT);
  for (const [index, download] of downloads.entries()) {
    expect(Buffer.concat([pieces[index] ?? Buffer.of(), await rest(download)]).equals(bytes)).toBe(true);
  }
  expect(bucket.opened).toHaveLength(KEPT + 50 + 50);
});

it('keeps the connections of 128 downloads for as long as their clients pause', async () => {
  await pausing(KEPT);
  vi.advanceTimersByTime(5 * PAUSE_MS);
  expect(bucket.connections).toBe(KEPT);
});

it('hands out at most 16 KiB at a time, in memory of its own, while more than 128 downloads have a connection', async () => {
  const pieces = await pausing(KEPT + 50);
  expect(pieces.slice(KEPT).map(({ length, buffer }) => [length, buffer.byteLength])).toEqual(Array(50).fill([16 * KIB, 16 * KIB]));
});

it('continues a range with one request for each pause, and closes no connection whose download waits for the store', async () => {
  const gate = deferred();
  bucket.gate = gate.promise;
  await pausing(KEPT, false);
  const waiting = downloads.map((download) => download.next());
  bucket.gate = undefined;
  const [first, last] = [70_001, 70_000 + 5 * 16 * KIB];
  const download = await begin({ first, last });
  const pieces: Uint8Array[] = [];
  for (let next = await download.next(); !next.done; next = await download.next()) {
    pieces.push(next.value);
    vi.advanceTimersByTime(11_000);
  }
  expect(Buffer.concat(pieces).equals(bytes.subarray(first, last + 1))).toBe(true);
  expect(bucket.opened.slice(KEPT)).toEqual([0, 1, 2, 3, 4].map((pause) => ({ first: first + pause * 16 * KIB, last })));
  expect(bucket.connections).toBe(KEPT);
  gate.resolve();
  await Promise.all(waiting);
});

it('keeps the connection of a client that takes a piece every four seconds', async () => {
  await pausing(KEPT + 1);
  bucket.opened.length = 0;
  for (let piece = 0; piece < 10; piece++) {
    for (const download of downloads) await download.next();
    vi.advanceTimersByTime(4_000);
  }
  expect(bucket.opened).toEqual([]);
});

it('fails if the file was removed while its client paused', async () => {
  await pausing(KEPT + 1);
  vi.advanceTimersByTime(PAUSE_MS);
  await bucket.remove([PATH]);
  await expect(downloads[0]?.next()).rejects.toMatchObject({ kind: 'storage-failure' });
});

it('fails if the store is down after the pause, and leaves no connection', async () => {
  await pausing(KEPT + 1);
  vi.advanceTimersByTime(PAUSE_MS);
  bucket.before = () => {
    throw new Error('down');
  };
  await expect(downloads[0]?.next()).rejects.toMatchObject({ kind: 'storage-failure' });
  expect(bucket.connections).toBe(KEPT);
});

it('rejects a file that is longer than its line says, whatever the pieces are', async () => {
  for (const size of [bytes.length - 1, bytes.length / 2]) {
    const download = (await openFile(bucket, PATH, undefined, size))?.[Symbol.asyncIterator]();
    await expect(rest(download)).rejects.toThrow('A file could not be read.');
  }
});

it('closes the connection that a download opens again while it is ended', async () => {
  await pausing(KEPT + 50);
  vi.advanceTimersByTime(PAUSE_MS);
  const gate = deferred();
  bucket.before = (operation) => (operation === 'open' ? gate.promise : undefined);
  const waiting = downloads[0]?.next();
  await downloads[0]?.return?.();
  gate.resolve();
  expect((await waiting)?.done).toBe(true);
  expect(bucket.connections).toBe(KEPT);
});
