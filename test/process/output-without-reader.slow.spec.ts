import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Program, type ServiceProcess, Workspace } from '../support/process.js';

/** Resolves to the exit code, whether or not anybody reads the output. */
async function exitCode({ child }: Program): Promise<number | null> {
  const [code] = (await once(child, 'exit')) as [number | null];
  return code;
}

/** Makes the service log more than a pipe holds. */
async function logMuch({ url }: ServiceProcess): Promise<void> {
  for (let count = 0; count < 100; count++) await fetch(`${url}/${'x'.repeat(7_000)}`);
}

const GONE = {
  'standard output': ({ child }: Program) => child.stdout?.destroy(),
  'standard error': ({ child }: Program) => child.stderr?.destroy(),
  both: ({ child }: Program) => [child.stdout, child.stderr].map((stream) => stream?.destroy()),
} as const;

describe('the service, if nobody reads its output', () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it.each<[keyof typeof GONE, NodeJS.Signals[]]>([
    ['standard output', ['SIGTERM']],
    ['both', ['SIGINT']],
    ['standard output', ['SIGTERM', 'SIGTERM']],
  ])('serves on and stops with 0: %s has no reader, %j', async (stream, signals) => {
    const { program, url } = await workspace.start();
    GONE[stream](program);
    expect((await fetch(`${url}/health/live`)).status).toBe(200);
    const code = exitCode(program);
    for (const signal of signals) program.child.kill(signal);
    expect(await code).toBe(0);
  });

  it('serves on and stops with 0 if the reader of standard output reads nothing more', async () => {
    const service = await workspace.start();
    service.program.child.stdout?.pause();
    await logMuch(service);
    const code = exitCode(service.program);
    service.program.child.kill('SIGTERM');
    expect(await code).toBe(0);
  });

  it('becomes ready although nobody reads the ready line', async () => {
    const probe = createServer().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const { port } = probe.address() as AddressInfo;
    probe.close();
    await once(probe, 'close');
    const program = workspace.launch({ PORT: String(port) });
    GONE.both(program);
    const code = exitCode(program);
    let isReady = false;
    while (!isReady && program.child.exitCode === null) {
      isReady = await fetch(`http://127.0.0.1:${port}/health/ready`).then(({ ok }) => ok, () => false);
    }
    await fetch(`http://127.0.0.1:${port}/health/live`);
    program.child.kill('SIGTERM');
    expect(await code).toBe(0);
  });

  it.each<[string, keyof typeof GONE, Record<string, string>]>([
    ['a wrong variable', 'standard error', { PORT: 'x' }],
    ['a wrong variable', 'both', { PORT: 'x' }],
    ['an address of another machine', 'standard output', { HOST: '192.0.2.1', LOG_LEVEL: 'debug' }],
    ['an address of another machine', 'both', { HOST: '192.0.2.1', LOG_LEVEL: 'debug' }],
  ])('refuses %s with 1: %s has no reader', async (_, stream, variables) => {
    const program = workspace.launch(variables);
    GONE[stream](program);
    expect(await exitCode(program)).toBe(1);
  });
});
