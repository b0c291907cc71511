import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ServiceProcess, Workspace } from '../support/process.js';

const MIB = 1024 * 1024;
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

/** The resident memory of the service, in MiB. */
async function resident(): Promise<number> {
  const status = await readFile(`/proc/${service.program.child.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}

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
