import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MIB } from '../../src/common/sizes.js';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { type ServiceProcess, Workspace } from '../support/process.js';

const FILE_BYTES = 256 * MIB;
const MOST_GROWTH = 100 * MIB;
const SAMPLE_EVERY = 16;
const TARGET = '/ingestHistoricalLoadData/upload_historical?customer_id=1&filename=big.bin&manufacturer=m';

const FORM_HEAD = '--b\r\nContent-Disposition: form-data; name="file"; filename="big.bin"\r\n\r\n';
const FORM_TAIL = '\r\n--b--\r\n';

describe('a file that is much larger than its memory', () => {
  let workspace: Workspace;
  let service: ServiceProcess;

  beforeAll(async () => {
    workspace = await Workspace.create();
    service = await workspace.start({ LOG_LEVEL: 'silent' });
  });
  afterAll(() => workspace.dispose());

  /** The resident memory of the service's process in bytes, read from the service's `/metrics`. */
  async function residentBytes(): Promise<number> {
    const metrics = await (await fetch(`${service.origin}/metrics`)).text();
    return Number(/^process_resident_memory_bytes (\S+)$/m.exec(metrics)?.[1]);
  }

  it.each([
    ['raw', 'application/octet-stream', '', ''],
    ['in a form', 'multipart/form-data; boundary=b', FORM_HEAD, FORM_TAIL],
  ])('streams to the disk and back: %s', async (_, type, head, tail) => {
    const chunk = randomBytes(MIB);
    const hash = createHash('sha256');
    const before = await residentBytes();
    const samples: number[] = [];

    async function* body(): AsyncGenerator<Buffer | string> {
      if (head) yield head;
      for (let chunks = 1; chunks <= FILE_BYTES / MIB; chunks++) {
        hash.update(chunk);
        yield chunk;
        if (chunks % SAMPLE_EVERY === 0) samples.push(await residentBytes());
      }
      if (tail) yield tail;
    }
    const upload = request(`${service.origin}${TARGET}`, { method: 'POST', headers: { 'Content-Type': type } });
    const answered = new Promise<{ status: number | undefined; id: string; body: string }>((resolve, reject) => {
      upload.once('error', reject).once('response', (answer) => {
        text(answer).then((body) => {
          resolve({ status: answer.statusCode, id: String(answer.headers['x-upload-id']), body });
        }, reject);
      });
    });
    await pipeline(Readable.from(body()), upload);
    const { status, id } = await answered;

    expect(status).toBe(200);
    const sha256 = hash.digest('hex');
    const line = (await new DataDirectoryView(workspace.data).lines()).find(({ upload_id }) => upload_id === id);
    expect(line).toMatchObject({ content_size: FILE_BYTES, content_sha256: sha256 });
    expect(samples).toHaveLength(FILE_BYTES / MIB / SAMPLE_EVERY);
    expect(Math.max(...samples) - before).toBeLessThan(MOST_GROWTH);

    const authorization = `Bearer ${(await workspace.token()).stdout.trim()}`;
    const fetched = await fetch(`${service.origin}/uploads/${id}/content`, { headers: { authorization } });
    const fetchedHash = createHash('sha256');
    const samplesOfFetch: number[] = [];
    let length = 0;
    for await (const piece of (fetched.body ?? []) as AsyncIterable<Uint8Array>) {
      fetchedHash.update(piece);
      length += piece.length;
      if (length > samplesOfFetch.length * SAMPLE_EVERY * MIB) samplesOfFetch.push(await residentBytes());
    }
    expect(fetchedHash.digest('hex')).toBe(sha256);
    expect(samplesOfFetch).toHaveLength(FILE_BYTES / MIB / SAMPLE_EVERY);
    expect(Math.max(...samplesOfFetch) - before).toBeLessThan(MOST_GROWTH);
  });
});
