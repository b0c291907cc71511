import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { Workspace } from '../support/process.js';
import { open } from '../support/raw.js';
import { SlowUpload } from '../support/slow-upload.js';

/** Whether a new connection is accepted. */
function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
      .once('connect', () => {
        socket.destroy();
        resolve(true);
      })
      .once('error', () => {
        resolve(false);
      });
  });
}

async function untilRefused(port: number): Promise<void> {
  while (await accepts(port));
}

describe('shutdown', () => {
  let workspace: Workspace;
  let view: DataDirectoryView;

  beforeEach(async () => {
    workspace = await Workspace.create();
    view = new DataDirectoryView(workspace.data);
  });
  afterEach(() => workspace.dispose());

  it.each(['SIGTERM', 'SIGINT'] as const)('on %s finishes requests in flight, accepts no more, and exits with 0', async (signal) => {
    const { program, port } = await workspace.start();
    const upload = await SlowUpload.begin(port);

    program.child.kill(signal);
    await untilRefused(port);
    expect(program.child.exitCode).toBeNull();
    expect(await upload.finish()).toMatchObject({ status: 200, headers: { connection: 'close' } });

    expect(await program.exited).toEqual({ code: 0, signal: null });
    expect(program.stderr).toBe('');
    expect(await view.lines()).toMatchObject([{ customer_id: 'slow' }]);
    upload.destroy();
  });

  it('serves as before during SHUTDOWN_DELAY_MS, but is not ready', async () => {
    const { program, port } = await workspace.start({ SHUTDOWN_DELAY_MS: '1500' });
    const url = `http://127.0.0.1:${port}`;
    program.child.kill('SIGTERM');
    await program.line(/stopping/);
    const ready = await fetch(`${url}/health/ready`);
    expect([ready.status, await ready.json()]).toEqual([503, {
      status: 'error',
      info: {},
      error: { service: { status: 'down', stopping: true } },
      details: { service: { status: 'down', stopping: true } },
    }]);
    const uploaded = await fetch(`${url}/ingestHistoricalLoadData/upload_historical?customer_id=late&filename=a.csv&manufacturer=m`, { method: 'POST' });
    expect([uploaded.status, uploaded.headers.get('connection')]).toEqual([200, 'keep-alive']);
    expect(program.child.exitCode).toBeNull();
    expect(await program.exited).toEqual({ code: 0, signal: null });
    expect(await view.lines()).toMatchObject([{ customer_id: 'late' }]);
  });

  it('answers a request on a connection that was idle when it stopped listening', async () => {
    const { program, port } = await workspace.start();
    const request = 'GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n';
    const [used, unused] = [await open(port), await open(port)];
    used.write(request);
    await once(used, 'data');
    program.child.kill('SIGTERM');
    await untilRefused(port);
    for (const socket of [used, unused]) {
      socket.write(request);
      const [answer] = (await Promise.race([once(socket, 'data'), once(socket, 'close')])) as [unknown];
      expect(String(answer)).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\nConnection: close\r\n/);
      socket.destroy();
    }
    expect(await program.exited).toEqual({ code: 0, signal: null });
  });

  it('answers requests on connections that waited to be accepted when the signal came', async () => {
    const { program, port } = await workspace.start();
    // While the process stands still, the kernel takes connections and bytes for it.
    program.child.kill('SIGSTOP');
    const sockets = await Promise.all(Array.from({ length: 20 }, () => open(port)));
    for (const socket of sockets) socket.write('GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const answers = Promise.all(sockets.map(async (socket) => String(((await once(socket, 'data')) as [Buffer])[0])));
    program.child.kill('SIGTERM');
    program.child.kill('SIGCONT');
    for (const answer of await answers) expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(await program.exited).toEqual({ code: 0, signal: null });
  });

  it('exits with 0 even after its timeout, and leaves nothing of an incomplete upload', async () => {
    const { program, port } = await workspace.start({ SHUTDOWN_TIMEOUT_MS: '100' });
    const upload = await SlowUpload.begin(port);
    const cutOff = upload.cutOff();
    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    await cutOff;
    upload.destroy();

    await workspace.start();
    expect([await view.lines(), await view.contentPaths(), await view.files('staging')]).toEqual([[], [], []]);
  });

  it.each([
    ['is kept alive after its answer', 'GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['has not sent a request yet', ''],
  ])('does not wait for a connection that %s', async (_, request) => {
    const { program, port } = await workspace.start({ SHUTDOWN_TIMEOUT_MS: '2147483647' });
    const socket = await open(port);
    if (request !== '') {
      socket.write(request);
      await once(socket, 'data');
    }
    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    socket.destroy();
  });

  it('exits with 0 even while its modules are being loaded', async () => {
    const hook = join(workspace.directory, 'hook.mjs');
    await writeFile(
      hook,
      `import { register } from 'node:module';
      import { isMainThread } from 'node:worker_threads';
      if (isMainThread) register(import.meta.url);
      export function resolve(name, context, next) {
        if (name === './serve.js') process.kill(process.pid, 'SIGTERM');
        return next(name, context);
      }`,
    );
    const program = workspace.launch({ NODE_OPTIONS: `--import ${hook}` });
    expect(await program.exited).toEqual({ code: 0, signal: null });
  });

  it('exits with 0 even during boot', async () => {
    const program = workspace.launch({ LOG_LEVEL: 'debug' });
    await program.line(/Starting Nest application/);
    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
  });
});
