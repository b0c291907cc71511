import { stat } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { constants, deflateRawSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { answerMemory, FREE_BYTES, type HeldMemory, type MemoryUse, processMemory } from '../../src/common/memory-budget.js';
import { form, FORM_TYPE } from '../support/form.js';
import { exchange, open, readAnswer } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';
import { expectWait } from '../support/waiting-upload.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.json&manufacturer=m';
const TEXT = 'x'.repeat(200_000);
const JSON_TYPE = 'application/json';
const ADDITIONAL_DATA = { name: 'additional_data', value: TEXT };
const FILE = { name: 'file', value: 'a,b\n'.repeat(100), filename: 'a.csv' };

let service: RunningService;
beforeAll(async () => {
  service = await startService({ REQUEST_IDLE_TIMEOUT_MS: '60000' });
});
afterAll(() => service.close());

const holders: HeldMemory[] = [];
const sockets: Socket[] = [];
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  for (const socket of sockets.splice(0)) socket.destroy();
  releaseAll();
});

/** Takes memory from the budget of the process as another request would, or waits in its queue. */
function hold(use: MemoryUse, bytes: number): void {
  const held = processMemory.hold(use);
  holders.push(held);
  void held.grow(bytes);
}

function releaseAll(): void {
  for (const held of holders.splice(0)) held.release();
}

describe('an upload waits for memory of the process while others have it all, and then returns its own', () => {
  it.each<[string, MemoryUse, string, string | Buffer]>([
    ['JSON that is stored as a file', 'text', JSON_TYPE, JSON.stringify({ readings: TEXT })],
    ['additional_data in JSON', 'text', JSON_TYPE, JSON.stringify({ additional_data: TEXT })],
    ['additional_data in a form', 'text', FORM_TYPE, form(ADDITIONAL_DATA, FILE)],
    ['additional_data after the file of a form', 'rest', FORM_TYPE, form(FILE, ADDITIONAL_DATA)],
    ['the index line of a long additional_data', 'line', JSON_TYPE, JSON.stringify({ additional_data: TEXT })],
  ])('%s', async (_name, use, type, body) => {
    hold(use, processMemory.bytes);
    // One request of each use may exceed the memory budget. This call takes that exception, so the upload must wait.
    hold(use, 1);
    const take = vi.spyOn(processMemory, 'take');
    const upload = fetch(service.url + UPLOAD, { method: 'POST', body: new Uint8Array(Buffer.from(body)), headers: { 'Content-Type': type } });
    const hasAsked = (): boolean => take.mock.calls.some(([held]) => held.use === use);
    expect((await expectWait(service, upload, hasAsked, releaseAll)).status).toBe(200);
    expect(processMemory.usedFor(use)).toBe(0);
  });
});

it('an upload with a long text is answered only when there is memory for it', async () => {
  const stored = await fetch(service.url + UPLOAD, { method: 'POST', body: JSON.stringify({ additional_data: TEXT }), headers: { 'Content-Type': JSON_TYPE } });
  const others = answerMemory.hold('answer');
  await others.take(answerMemory.bytes + 1);
  const take = vi.spyOn(answerMemory, 'take');
  const found = fetch(`${service.url}/uploads/${stored.headers.get('x-upload-id') ?? ''}`, { headers: { Authorization: `Bearer ${await service.adminToken()}` } });
  const answer = await expectWait(service, found, () => take.mock.calls.length > 0, () => { others.release(); });
  expect(await answer.json()).toMatchObject({ additional_data: TEXT });
  await vi.waitFor(() => { expect(answerMemory.usedFor('answer')).toBe(0); });
});

/** Gzip without its end, with a file name of 66,000 bytes in its header (RFC 1952, section 2.3), which decodes to nothing. */
function beginningOfGzip(text: string): Buffer {
  const header = Buffer.from([0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3]);
  return Buffer.concat([header, Buffer.from(`${'n'.repeat(66_000)}\0`), deflateRawSync(text, { finishFlush: constants.Z_SYNC_FLUSH })]);
}

describe('a client that falls silent in the middle of an upload', () => {
  /** Advances the fake clock, which the service also uses. The service must answer a health check in each second. */
  async function pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      await vi.advanceTimersByTimeAsync(1_000);
      expect((await exchange(service.port, 'GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n')).status).toBe(200);
    }
  }

  async function untilStaged(bytes: number): Promise<void> {
    for (let staged = 0; staged < bytes; ) {
      const sizes = await Promise.all((await service.files('staging')).map(async (file) => (await stat(file)).size));
      staged = Math.max(0, ...sizes);
    }
  }

  it.each<[string, string, string | Buffer]>([
    ['in JSON', JSON_TYPE, `{"additional_data":"${TEXT}`],
    ['in compressed JSON, most of which is decoded during its silence', `${JSON_TYPE}\r\nContent-Encoding: gzip`, beginningOfGzip(`{"additional_data":"${TEXT}`)],
    ['in additional_data of a form', FORM_TYPE, form(ADDITIONAL_DATA, FILE).subarray(0, 150_000)],
    ['in a file, while parts of files hold memory', 'text/csv', TEXT],
  ])('gets 408 before the idle timeout, but only if others wait for memory: %s', async (_name, type, begin) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const isFile = type === 'text/csv';
    if (isFile) hold('part', 1);
    const socket = await open(service.port);
    sockets.push(socket);
    const answered = vi.fn();
    const answer = readAnswer(socket).finally(answered);
    socket.write(`POST ${UPLOAD} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nContent-Length: 1000000\r\n\r\n`);
    socket.write(begin);
    if (isFile) await untilStaged(begin.length);
    // Other threads decode it. Before it has all of its memory, it would wait for more.
    else if (type.includes('gzip')) await vi.waitUntil(() => processMemory.usedFor('text') >= TEXT.length - FREE_BYTES, { timeout: 10_000 });
    await pass(20);
    expect(answered).not.toHaveBeenCalled();
    // One of these three requests may get memory beyond the budget. The others then wait for memory.
    for (let other = 0; other < 3; other++) hold('text', processMemory.bytes);
    await pass(4);
    expect(answered).not.toHaveBeenCalled();
    await pass(16);
    expect((await answer).status).toBe(408);
  });
});
