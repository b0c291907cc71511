import { createHash } from 'node:crypto';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RUNTIMES } from '../servers/runtimes.mjs';
import { Workspace } from '../support/process.js';
import { type RunningService, startService } from '../support/service.js';

const BYTES = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7) % 256);
const SHA256 = createHash('sha256').update(BYTES);
const [HEX, BASE64] = [SHA256.copy().digest('hex'), SHA256.digest('base64')];
const WITHIN_MS = 120_000;

let workspace: Workspace;
beforeAll(async () => {
  workspace = await Workspace.create();
});
afterAll(() => workspace.dispose());

let service: RunningService;
let proxy: Server;
beforeEach(async () => {
  service = await startService({ INGESTION_AUTH: 'required' });
  let connections = 0;
  proxy = createServer((socket) => {
    socket.on('error', () => undefined);
    if (++connections === 1) {
      // Resets the first connection in the middle of its request's body.
      let received = 0;
      socket.on('data', (chunk: Buffer) => {
        received += chunk.length;
        if (received > 10_000) socket.resetAndDestroy();
      });
      return;
    }
    const onward = connect(service.port, '127.0.0.1').on('error', () => socket.destroy());
    socket.pipe(onward).pipe(socket);
  });
  await new Promise<void>((listening) => proxy.listen(0, '127.0.0.1', listening));
});
afterEach(async () => {
  proxy.close();
  await service.close();
});

const NODE = { name: 'Node', isAvailable: true, install: () => Promise.resolve(process.execPath), parameters: () => [] as string[] };
for (const { name, isAvailable, install, parameters } of [NODE, ...RUNTIMES]) describe.runIf(isAvailable)(name, () => {
  it('uploads with load-data-service/client', async () => {
    const breakingUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const script = [resolve('test/integration/runtimes/upload.mjs'), service.url, breakingUrl, await service.adminToken()];
    const program = workspace.run(await install(), [...parameters(resolve('.')), ...script], { HOME: workspace.directory, NO_COLOR: '1' }, resolve('.'));
    const { code } = await program.exited;
    expect(code, program.stdout + program.stderr).toBe(0);
    expect(program.stderr).toBe('');

    const digest = `sha-256=:${BASE64}:`;
    const names = ['blob', 'bytes', 'form', 'stream', 'opened', 'broken'];
    const { receipts, ...rest } = JSON.parse(program.stdout) as { receipts: Record<string, { uploadId: string }> };
    expect(receipts).toEqual(Object.fromEntries(names.map((name) => [name, { uploadId: expect.any(String) as string, digest, replayed: false }])));
    expect(rest).toEqual({
      json: { uploadId: expect.any(String) as string, replayed: false },
      progress: [[BYTES.length, BYTES.length], [BYTES.length, null]],
      part: [...BYTES.subarray(7, 10)],
      refusals: {
        refused: { name: 'LoadDataError', status: 400, error: 'Invalid or missing query parameter.' },
        stream: { name: 'RangeError', message: 'of the caller' },
        aborted: { name: 'AbortError' },
      },
    });
    const lines = await service.lines();
    expect(lines.map(({ filename }) => filename).sort()).toEqual([...names, 'json'].sort());
    for (const { filename, content_sha256, upload_id, content_type, additional_data } of lines) {
      const isJson = filename === 'json';
      expect({ filename, content_sha256, additional_data }).toEqual({ filename, content_sha256: isJson ? null : HEX, additional_data: isJson || filename === 'form' ? 'Süd' : null });
      if (!isJson) expect(receipts[String(filename)]?.uploadId).toBe(upload_id);
      if (filename === 'blob' || filename === 'opened') expect(content_type).toBe('text/csv');
    }
  }, WITHIN_MS);
});
