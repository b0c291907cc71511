import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Program, type ServiceProcess, Workspace } from '../support/process.js';

/** Resolves to the exit code, whether or not anybody reads the output. */
async function exitCode({ child }: Program): Promise<number | null> {
  const [code] = (await once(child, 'exit')) as [number | null];
  return code;
}

/** Makes the service log more than a pipe holds: about 700 KB. */
async function logMuch({ url }: ServiceProcess): Promise<void> {
  const path = `${url}/${'x'.repeat(255)}`;
  for (let count = 0; count < 30; count++) await Promise.all(Array.from({ length: 50 }, () => fetch(path)));
}

/** Closes the reading end of a program's output. */
const GONE = {
  'standard output': ({ child }: Program) => child.stdout?.destroy(),
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
  ])('stops with 0 although %s has no reader: %j', async (stream, signals) => {
    const { program } = await workspace.start();
    GONE[stream](program);
    const code = exitCode(program);
    for (const signal of signals) program.child.kill(signal);
    expect(await code).toBe(0);
  });

  it('stops with 0 although the reader of standard output reads nothing more', async () => {
    const service = await workspace.start();
    service.program.child.stdout?.pause();
    await logMuch(service);
    const code = exitCode(service.program);
    service.program.child.kill('SIGTERM');
    expect(await code).toBe(0);
  });

  it('becomes ready, serves, and stops with 0 although nobody reads its ready line', async () => {
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
    expect((await fetch(`http://127.0.0.1:${port}/health/live`)).status).toBe(200);
    program.child.kill('SIGTERM');
    expect(await code).toBe(0);
  });

  it.each<[string, Record<string, string>]>([
    ['a wrong variable', { PORT: 'x' }],
    ['an address of another machine', { HOST: '192.0.2.1', LOG_LEVEL: 'debug' }],
  ])('refuses %s with 1 although nobody reads why', async (_, variables) => {
    const program = workspace.launch(variables);
    GONE.both(program);
    expect(await exitCode(program)).toBe(1);
  });
});
