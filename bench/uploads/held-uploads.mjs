import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { contentPath, indexLine, segmentDirectory } from '../../dist/ingestion/domain/layout.js';

const DAYS = 4;
const DAY_MS = 86_400_000;
const SEGMENT_BYTES = 64 * 1024 * 1024;
const BLOCK_BYTES = 1024 * 1024;
const FILE_EVERY = 50;
const FILE_BYTES = Buffer.from('2026-01-01T00:00Z,3.31\n');
const FILE_SHA256 = createHash('sha256').update(FILE_BYTES).digest('hex');

/** Starts and stops the service once, so that the measured start isn't the first one on this data directory. */
export async function bootOnce(services) {
  const service = await services.start();
  await service.end('SIGTERM');
}

/** A data directory with many uploads. It is filled in the first round and reused in the later ones. */
export class HeldUploads {
  #count;
  #kept;

  constructor(count) {
    this.#count = count;
  }

  async prepare(services, { signal, show }) {
    if (this.#kept) {
      await rename(this.#kept, services.data);
      return;
    }
    await fill(services.data, this.#count, signal, show);
    await bootOnce(services);
  }

  /**
   * Moves the data directory out of its parent directory, which is about to be removed, so that the next round can use
   * it.
   */
  async keep(services, { disk }) {
    this.#kept ??= join(disk.path, `held-${randomUUID()}`);
    await rename(services.data, this.#kept);
  }
}

/** Fills a data directory with uploads, without flushing them. */
async function fill(data, count, signal, show) {
  const began = Date.now() - (DAYS - 1) * DAY_MS;
  const segment = new SegmentWriter(data);
  for (let number = 0; number < count; number++) {
    const upload = uploadOf(number, new Date(began + Math.floor((number / count) * (DAYS - 1) * DAY_MS)));
    if (upload.content) await writeNew(join(data, upload.content.path), FILE_BYTES);
    await segment.write(segmentDirectory(upload.kind, upload.receivedAt), `${indexLine(upload)}\n`, upload.receivedAt);
    if (number % 1000 === 0) {
      signal.throwIfAborted();
      show(`${number} of ${count} uploads made`);
    }
  }
  await segment.close();
}

function uploadOf(number, receivedAt) {
  const uploadId = uuidV7({ msecs: receivedAt.getTime() });
  const named = { kind: 'historical', customerId: `customer-${number % 8}`, filename: 'load.csv' };
  const path = contentPath({ ...named, uploadId, beganAt: receivedAt });
  const content = number % FILE_EVERY === 0 ? { path, type: 'text/csv', size: FILE_BYTES.length, sha256: FILE_SHA256 } : null;
  const own = { uploadId, receivedAt, manufacturer: 'acme', idempotencyKey: null, additionalData: `reading ${number}` };
  return { ...named, ...own, content };
}

async function writeNew(path, bytes) {
  const write = () => writeFile(path, bytes, { flag: 'wx' });
  await write().catch(async () => {
    await mkdir(dirname(path), { recursive: true });
    await write();
  });
}

class SegmentWriter {
  #data;
  #directory = '';
  #file;
  #length = 0;
  #block = '';

  constructor(data) {
    this.#data = data;
  }

  async write(directory, line, time) {
    if (directory !== this.#directory || this.#length >= SEGMENT_BYTES) await this.#begin(directory, time);
    this.#block += line;
    this.#length += line.length;
    if (this.#block.length >= BLOCK_BYTES) await this.#flush();
  }

  async close() {
    await this.#flush();
    await this.#file?.close();
  }

  async #begin(directory, time) {
    await this.close();
    await mkdir(join(this.#data, directory), { recursive: true });
    this.#file = await open(join(this.#data, directory, `${uuidV7({ msecs: time.getTime() })}.ndjson`), 'wx');
    this.#directory = directory;
    this.#length = 0;
  }

  async #flush() {
    await this.#file?.writeFile(this.#block);
    this.#block = '';
  }
}
