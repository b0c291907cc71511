import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../servers/server.mjs';
import { type ServiceProcess, type Variables, Workspace } from './process.js';
import { type Change, type ProxyKind, type RunningProxy, startProxy } from './proxies.js';

const RETRY_MS = 20;

export async function until(condition: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await condition())) await delay(RETRY_MS);
}

/** One of several service processes, each with its own DATA_DIR, at a port that it keeps when it is restarted. */
export class Replica {
  private constructor(
    private readonly workspace: Workspace,
    private readonly variables: Variables,
    readonly port: number,
    private service: ServiceProcess,
  ) {}

  static async start(given: Variables): Promise<Replica> {
    const [workspace, port] = [await Workspace.create(), await freePort()];
    const variables = { ...given, PORT: String(port) };
    return new Replica(workspace, variables, port, await workspace.start(variables));
  }

  get dataDirectory(): string {
    return this.workspace.data;
  }

  get lines(): Promise<readonly Readonly<Record<string, unknown>>[]> {
    return this.files('uploads').then(async (files) => {
      const segments = await Promise.all(files.map((file) => readFile(file, 'utf8')));
      // A replica may be writing the last line just now.
      const complete = segments.flatMap((segment) => segment.split('\n').slice(0, -1));
      return complete.map((line) => JSON.parse(line) as Record<string, unknown>);
    });
  }

  async stagedBytes(): Promise<number> {
    const sizes = await Promise.all((await this.files('staging')).map((file) => stat(file).then(({ size }) => size, () => 0)));
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  async unreadBytes(): Promise<number> {
    const port = this.port.toString(16).toUpperCase().padStart(4, '0');
    const sockets = (await readFile('/proc/net/tcp', 'utf8')).split('\n').map((line) => line.trim().split(/\s+/));
    const unread = sockets.filter(([, local, , state]) => state === '01' && local?.endsWith(`:${port}`)).map(([, , , , queues]) => Number.parseInt(queues?.split(':')[1] ?? '0', 16));
    return Math.max(0, ...unread);
  }

  async token(): Promise<string> {
    return (await this.workspace.token()).stdout.trim();
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.service.program.child.kill(signal);
  }

  end(signal: 'SIGTERM' | 'SIGKILL'): ReturnType<ServiceProcess['program']['end']> {
    return this.service.program.end(signal);
  }

  async restart(): Promise<void> {
    this.service = await this.workspace.start(this.variables);
  }

  dispose(): Promise<void> {
    return this.workspace.dispose();
  }

  private async files(folder: string): Promise<string[]> {
    const entries = await readdir(join(this.dataDirectory, folder), { recursive: true, withFileTypes: true }).catch(() => []);
    return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  }
}

export interface Deployment {
  readonly proxy: RunningProxy;
  readonly replicas: readonly [Replica, Replica];
  lines(): Promise<Readonly<Record<string, unknown>>[]>;
  dispose(): Promise<void>;
}

export async function deploy(kind: ProxyKind, variables: Variables = {}, changes: readonly Change[] = [], port?: number): Promise<Deployment> {
  const all = { TRUST_PROXY: '1', LOG_LEVEL: 'warn', ...variables };
  const replicas = await Promise.all([Replica.start(all), Replica.start(all)]);
  const proxy = await startProxy(kind, [replicas[0].port, replicas[1].port], changes, port);
  return {
    proxy,
    replicas,
    lines: async () => (await Promise.all(replicas.map((replica) => replica.lines))).flat(),
    dispose: async () => {
      await Promise.all([proxy.stop(), ...replicas.map((replica) => replica.dispose())]);
    },
  };
}
