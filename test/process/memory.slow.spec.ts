import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { MIB } from '../../src/common/sizes.js';
import { type ServiceProcess, Workspace } from '../support/process.js';

const CLIENTS = 600;
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=load.csv&manufacturer=m';
const isLinux = existsSync('/proc/self/status');

let workspace: Workspace;
let service: ServiceProcess;
beforeAll(async () => {
  workspace = await Workspace.create();
  service = await workspace.start({ REQUEST_IDLE_TIMEOUT_MS: '600000' });
});
afterAll(() => workspace.dispose());

/** The resident memory of the service, in MiB: now, and the most since the peak was cleared last. */
async function memory(): Promise<{ resident: number; peak: number }> {
  const status = await readFile(`/proc/${service.program.child.pid}/status`, 'utf8');
  const [resident, peak] = [/^VmRSS:\s+(\d+) kB/m, /^VmHWM:\s+(\d+) kB/m].map((field) => Number(field.exec(status)?.[1]) / 1024);
  return { resident: resident ?? NaN, peak: peak ?? NaN };
}

const resident = async (): Promise<number> => (await memory()).resident;

/** Sets the peak of the memory to the present value (proc(5), `clear_refs`). */
const clearPeak = (): Promise<void> => writeFile(`/proc/${service.program.child.pid}/clear_refs`, '5');

it.runIf(isLinux)('returns memory that it needed only to start', async () => {
  const started = await resident();
  await expect.poll(resident, { timeout: 120_000, interval: 500 }).toBeLessThan(started - 10);
});

it.runIf(isLinux)(`takes little memory for ${CLIENTS} silent clients, and returns it after they have left`, async () => {
  const small = await fetch(service.origin + UPLOAD, { method: 'POST', headers: { 'Content-Type': 'text/csv' }, body: 'bytes' });
  expect(small.status).toBe(200);
  const before = await resident();

  const bytes = Buffer.alloc(5 * MIB);
  const head = `POST ${UPLOAD} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\nContent-Length: ${20 * MIB}\r\n\r\n`;
  const sockets = Array.from({ length: CLIENTS }, () => {
    const socket = connect({ host: '127.0.0.1', port: service.port }).on('error', () => undefined);
    socket.write(head);
    socket.write(bytes);
    return socket;
  });
  await Promise.all(sockets.map((socket) => once(socket, 'drain')));
  const growth = (await resident()) - before;
  expect(growth).toBeGreaterThan(50);
  expect(growth).toBeLessThan(300);

  for (const socket of sockets) socket.destroy();
  await expect.poll(resident, { timeout: 120_000, interval: 500 }).toBeLessThan(before + 40);
});

const SLOW_READERS = 1_000;

it.runIf(isLinux)(`takes bounded memory for ${SLOW_READERS} clients that read a file slowly, stores uploads meanwhile, and sends each the whole file`, async () => {
  const file = randomBytes(16 * MIB);
  const stored = await fetch(service.origin + UPLOAD, { method: 'POST', headers: { 'Content-Type': 'text/csv' }, body: file });
  expect(stored.status).toBe(200);
  const target = `/uploads/${stored.headers.get('x-upload-id') ?? ''}/content`;
  const authorization = `Bearer ${(await workspace.token()).stdout.trim()}`;
  const request = `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: ${authorization}\r\n\r\n`;
  await clearPeak();
  const before = await resident();

  const readers = Array.from({ length: SLOW_READERS }, () => {
    const socket = connect({ host: '127.0.0.1', port: service.port }).on('error', () => undefined);
    socket.write(request);
    return socket;
  });
  // Each gets the beginning of its answer, and then reads no more.
  const beginning = (socket: Socket) => new Promise<Buffer>((resolve) => socket.once('data', (chunk) => { socket.pause(); resolve(chunk); }));
  const parts = await Promise.all(readers.map(beginning));
  const uploads = await Promise.all(Array.from({ length: 200 }, () => fetch(service.origin + UPLOAD, { method: 'POST' })));
  expect(new Set(uploads.map(({ status }) => status))).toEqual(new Set([200]));
  const { peak } = await memory();
  // The connections and uploads take memory, too. Without a shared bound, the readers alone would hold 2 GiB.
  expect(peak - before).toBeLessThan(300);

  for (const at of [0, 499, 999]) {
    const received = Buffer.concat([parts[at] ?? Buffer.of(), ...((await readers[at]?.toArray()) as Buffer[])]);
    expect(received.subarray(received.indexOf('\r\n\r\n') + 4).equals(file)).toBe(true);
  }
  for (const socket of readers) socket.destroy();
});

const READERS = 40;

it.runIf(isLinux)(`takes bounded memory for ${READERS} clients that don't read an answer of 60 MiB`, async () => {
  const form = new FormData();
  form.set('additional_data', '\u0001'.repeat(10 * MIB));
  form.set('file', new Blob(['bytes']), 'load.csv');
  const stored = await fetch(service.origin + UPLOAD, { method: 'POST', body: form });
  expect(stored.status).toBe(200);
  const target = `/uploads/${stored.headers.get('x-upload-id') ?? ''}`;
  const authorization = `Bearer ${(await workspace.token()).stdout.trim()}`;
  await clearPeak();
  const before = await resident();

  const sockets = Array.from({ length: READERS }, () => {
    const socket = connect({ host: '127.0.0.1', port: service.port }).on('error', () => undefined).pause();
    socket.write(`GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: ${authorization}\r\n\r\n`);
    return socket;
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  // Once the clients read, the answers are sent one after the other. Four are enough to see.
  const lengths: number[] = [];
  for (const socket of sockets) {
    let bytes = 0;
    socket.on('data', (chunk) => (bytes += chunk.length)).resume().once('close', () => lengths.push(bytes));
  }
  await expect.poll(() => lengths.length, { timeout: 120_000, interval: 500 }).toBeGreaterThanOrEqual(4);
  expect(Math.min(...lengths)).toBeGreaterThan(60 * MIB);
  for (const socket of sockets) socket.destroy();
  const { peak } = await memory();
  expect(peak - before).toBeLessThan(500);
});
