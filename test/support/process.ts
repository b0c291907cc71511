import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { built } from './built.js';
import { writeSigningKeys } from './signing-keys.js';

// Wait for the build: the programs that specs start are in dist.
await built();

export type Variables = Readonly<Record<string, string>>;

/** Environment variables for the installed servers and runtimes of the tests, and for this machine's npm registry. */
export const cacheVariables = (): Variables => {
  const { HOME = '', XDG_CACHE_HOME, NODE_EXTRA_CA_CERTS } = process.env;
  return { HOME, ...(XDG_CACHE_HOME !== undefined && { XDG_CACHE_HOME }), ...(NODE_EXTRA_CA_CERTS !== undefined && { NODE_EXTRA_CA_CERTS }) };
};

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A program that was started as a process, and its output so far. */
export class Program {
  stdout = '';
  stderr = '';
  readonly exited: Promise<Exit>;

  constructor(readonly child: ChildProcess) {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.exited = new Promise((resolve, reject) => {
      child.once('error', reject).once('close', (code, signal) => {
        resolve({ code, signal });
      });
    });
  }

  get lines(): string[] {
    return this.stdout.split('\n').slice(0, -1);
  }

  /** Waits for a line of the output that matches. Rejects if the program ends without one. */
  async line(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = this.lines.find((line) => pattern.test(line));
      if (found !== undefined) return found;
      const ended = await Promise.race([
        this.exited.then(() => true),
        once(this.child.stdout as NodeJS.EventEmitter, 'data').then(() => false),
      ]);
      if (ended && !this.lines.some((line) => pattern.test(line))) {
        throw new Error(`It ended without a line like ${String(pattern)}:\n${this.stdout}${this.stderr}`);
      }
    }
  }

  /** Waits until the program asks a question, and types the answer. Rejects if the program ends before it asks. */
  async answer(question: string, answer: string): Promise<void> {
    while (!this.stdout.includes(question)) {
      const isOver = await Promise.race([this.exited.then(() => true), once(this.child.stdout as NodeJS.EventEmitter, 'data').then(() => false)]);
      if (isOver && !this.stdout.includes(question)) throw new Error(`It ended without asking ${question}\n${this.stdout}${this.stderr}`);
    }
    this.child.stdin?.write(`${answer}\r`);
  }

  end(signal: NodeJS.Signals): Promise<Exit> {
    this.child.kill(signal);
    return this.exited;
  }
}

/** The service in a process of its own, with the parts of the ready line that it printed. */
export interface ServiceProcess {
  readonly program: Program;
  readonly readyLine: string;
  readonly url: string;
  readonly swaggerUrl: string;
  readonly curl: string | undefined;
  /** The service's address on this machine, `http://host:port`. */
  readonly origin: string;
  readonly port: number;
}

const READY_LINE = /^[^{].*\/docs/;

export async function ready(program: Program): Promise<ServiceProcess> {
  const readyLine = await program.line(READY_LINE);
  const [url = '', swaggerUrl = ''] = readyLine.match(/https?:\/\/[^\s']+/g) ?? [];
  const curl = /\bcurl .*$/.exec(readyLine)?.[0];
  const { origin, port } = new URL(/https?:\/\/[^\s'"]+/.exec(curl ?? url)?.[0] ?? '');
  return { program, readyLine, url, swaggerUrl, curl, origin, port: Number(port) };
}

/**
 * A temporary directory in which the programs of a test run. `dispose` kills the programs that still run, and removes
 * the directory.
 */
export class Workspace {
  private readonly programs: Program[] = [];

  private constructor(readonly directory: string) {}

  static async create(): Promise<Workspace> {
    return new Workspace(await mkdtemp(join(tmpdir(), 'load-data-')));
  }

  get data(): string {
    return join(this.directory, 'data');
  }

  /**
   * Starts the service and waits until it is ready. A new DATA_DIR gets signing keys first, because creating them would
   * take the service some time.
   */
  async start(variables: Variables = {}): Promise<ServiceProcess> {
    const { DATA_DIR, IDENTITY_PROVIDER = 'embedded' } = variables;
    if (DATA_DIR === undefined && IDENTITY_PROVIDER === 'embedded' && !existsSync(this.data)) await writeSigningKeys(this.data);
    return ready(this.launch(variables));
  }

  launch(variables: Variables = {}): Program {
    return this.run(process.execPath, ['--trace-warnings', resolve('dist/main.js')], variables);
  }

  async main(parameters: readonly string[], variables: Variables = {}): Promise<{ code: number | null; stdout: string; stderr: string }> {
    const { code, stdout, stderr } = await this.toEnd(parameters, variables);
    return { code, stdout, stderr };
  }

  token(parameters: readonly string[] = [], variables: Variables = {}): Promise<Program & Exit> {
    return this.toEnd(['token', ...parameters], variables);
  }

  verifyStore(parameters: readonly string[] = [], variables: Variables = {}): Promise<Program & Exit> {
    return this.toEnd(['verify', ...parameters], variables);
  }

  compact(parameters: readonly string[] = [], variables: Variables = {}): Promise<Program & Exit> {
    return this.toEnd(['compact', ...parameters], variables);
  }

  moveStore(parameters: readonly string[] = [], variables: Variables = {}): Promise<Program & Exit> {
    return this.toEnd(['move', ...parameters], variables);
  }

  erase(parameters: readonly string[] = [], variables: Variables = {}): Promise<Program & Exit> {
    return this.toEnd(['erase', ...parameters], variables);
  }

  auth0Setup(parameters: readonly string[] = [], variables: Variables = {}): Promise<Program & Exit> {
    return this.toEnd(['auth0-setup', ...parameters], variables);
  }

  keycloakSetup(parameters: readonly string[] = [], variables: Variables = {}): Promise<Program & Exit> {
    return this.toEnd(['keycloak-setup', ...parameters], variables);
  }

  /**
   * Starts a command of the service on a terminal of its own, where standard output and error are one stream. Needs the
   * program `script`.
   */
  onTerminal(name: string, parameters: string, variables: Variables): Program {
    const command = `'${process.execPath}' '${resolve(`dist/commands/${name}.js`)}' ${parameters}`;
    return this.run('script', ['-qefc', command, '/dev/null'], variables);
  }

  /** Runs the service's program, which loads its commands from the bundle, in half of the processor time of their modules. */
  private async toEnd(parameters: readonly string[], variables: Variables): Promise<Program & Exit> {
    const program = this.run(process.execPath, [resolve('dist/main.js'), ...parameters], variables);
    return Object.assign(program, await program.exited);
  }

  /** Runs a command line in a shell, in a directory other than the service's. Rejects if the command fails. */
  async paste(command: string | undefined): Promise<string> {
    const shell = this.run('/bin/sh', ['-c', command ?? 'false'], {}, '/');
    const { code } = await shell.exited;
    if (code !== 0) throw new Error(`It exited with ${code}: ${command}\n${shell.stdout}${shell.stderr}`);
    return shell.stdout;
  }

  run(command: string, parameters: readonly string[], variables: Variables, cwd = this.directory): Program {
    const env = { PATH: process.env.PATH, HOME: this.directory, PORT: '0', DATA_DIR: this.data, ...variables };
    const program = new Program(spawn(command, parameters, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] }));
    this.programs.push(program);
    return program;
  }

  async dispose(): Promise<void> {
    await Promise.all(this.programs.map((program) => program.end('SIGKILL')));
    await rm(this.directory, { recursive: true, force: true });
  }
}
