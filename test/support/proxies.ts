import { readdir, readFile, readlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join, resolve } from 'node:path';
import { freePort } from '../servers/server.mjs';
import { programPath } from '../servers/proxies.mjs';
import { type Program, Workspace } from './process.js';
import { selfSigned } from '../servers/self-signed.mjs';

const RETRY_MS = 20;

export const HAS_IPV6 = Object.values(networkInterfaces()).flat().some((found) => found?.address === '::1');

/** A change of a shipped configuration: replaces a text, which the configuration must contain. */
export type Change = readonly [from: string | RegExp, to: string];

export interface ProxyKind {
  readonly name: 'nginx' | 'HAProxy';
  readonly program: 'nginx' | 'haproxy';
  readonly configuration: string;
  readonly timeouts: (client: string, replica: string) => Change[];
  readonly below: (basePath: string) => Change[];
  readonly placed: (place: Place) => Change[];
  /**
   * Prepares a proxy, and returns the parameters to start it with. With `reloads`, the program has a main process that
   * starts others, as in production, so that it can read its configuration again.
   */
  readonly prepare: (directory: string, file: string, reloads: boolean) => Promise<string[]>;
  readonly reloadSignal: NodeJS.Signals;
}

interface Place {
  readonly directory: string;
  readonly port: number;
  readonly replicas: readonly [number, number];
}

export const NGINX: ProxyKind = {
  name: 'nginx',
  program: 'nginx',
  configuration: 'deploy/nginx/load-data-service.conf',
  timeouts: (client, replica) => [
    ['client_body_timeout 75s', `client_body_timeout ${client}`],
    ['send_timeout 75s', `send_timeout ${client}`],
    ['proxy_send_timeout 300s', `proxy_send_timeout ${replica}`],
    ['proxy_read_timeout 300s', `proxy_read_timeout ${replica}`],
  ],
  below: () => [],
  placed: ({ directory, port, replicas: [first, second] }) => [
    ['listen 443 ssl http2', `listen 127.0.0.1:${port} ssl http2`],
    ['listen [::]:443 ssl http2;', HAS_IPV6 ? `listen [::1]:${port} ssl http2;` : ''],
    ['/etc/ssl/load-data-service.crt', join(directory, 'certificate.pem')],
    ['/etc/ssl/load-data-service.key', join(directory, 'certificate.pem')],
    ['/var/log/nginx/load-data-service.log', join(directory, 'log')],
    ['10.0.0.11:3000', `127.0.0.1:${first}`],
    ['10.0.0.12:3000', `127.0.0.1:${second}`],
  ],
  prepare: async (directory, file, reloads) => {
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${directory}/${name};`);
    const main = join(directory, 'nginx.conf');
    // Without `reloads`, nginx is one process, which ends when the test kills it.
    await writeFile(main, `daemon off; master_process ${reloads ? 'on' : 'off'}; pid ${directory}/pid; events {}\nhttp { ${temporary.join(' ')} include ${file}; }\n`);
    return ['-e', 'stderr', '-c', main];
  },
  reloadSignal: 'SIGHUP',
};

export const HAPROXY: ProxyKind = {
  name: 'HAProxy',
  program: 'haproxy',
  configuration: 'deploy/haproxy/load-data-service.cfg',
  timeouts: (client, replica) => [
    ['timeout client 75s', `timeout client ${client}`],
    ['timeout server 300s', `timeout server ${replica}`],
  ],
  below: (basePath) => [['meth GET uri ', `meth GET uri ${basePath}`]],
  placed: ({ directory, port, replicas: [first, second] }) => [
    // Changing to another user needs root, and a user that exists only where the package is installed.
    [/^ +(?:chroot|user|group) .*\n/gm, ''],
    ['bind :443', `bind 127.0.0.1:${port}`],
    [/ +bind :::443 v6only( .*\n)/, HAS_IPV6 ? `    bind [::1]:${port}$1` : ''],
    [/\/etc\/ssl\/load-data-service\.pem/g, join(directory, 'certificate.pem')],
    [/abns@load-data-service/g, `abns@load-data-service-${port}`],
    ['10.0.0.11:3000', `127.0.0.1:${first}`],
    ['10.0.0.12:3000', `127.0.0.1:${second}`],
  ],
  prepare: (_directory, file, reloads) => Promise.resolve([...(reloads ? ['-W'] : []), '-f', file]),
  reloadSignal: 'SIGUSR2',
};

/** A proxy with the configuration of `deploy/`, in front of two replicas on this machine. */
export interface RunningProxy {
  readonly port: number;
  readonly program: Program;
  readonly certificate: string;
  log(): Promise<string>;
  openFiles(): Promise<string[]>;
  /** Writes a new certificate, which the proxy uses after `reload`. Resolves to this certificate. */
  replaceCertificate(): Promise<string>;
  reload(): void;
  /** The worker processes. None unless the proxy was started to `reload`. */
  workers(): Promise<string[]>;
  stop(): Promise<void>;
}

/** Starts a proxy, and waits until it accepts connections. */
export async function startProxy(kind: ProxyKind, replicas: readonly [number, number], changes: readonly Change[] = [], port?: number, reloads = false): Promise<RunningProxy> {
  const workspace = await Workspace.create();
  const { directory } = workspace;
  const certificate = await certificateIn(directory);
  const place = { directory, port: port ?? (await freePort()), replicas };
  const file = join(directory, 'configuration');
  await writeFile(file, changed(await readFile(kind.configuration, 'utf8'), [...changes, ...kind.placed(place)]));
  const parameters = await kind.prepare(directory, file, reloads);
  const program = workspace.run(resolve(programPath(kind.program) ?? kind.program), parameters, {});
  await accepts(place.port, program);
  return {
    port: place.port,
    program,
    certificate,
    log: async () => program.stdout + (await readFile(join(directory, 'log'), 'utf8').catch(() => '')),
    openFiles: async () => {
      const descriptors = `/proc/${program.child.pid ?? ''}/fd`;
      const paths = await Promise.all((await readdir(descriptors)).map((name) => readlink(join(descriptors, name)).catch(() => '')));
      return paths.filter((path) => path.startsWith(`${directory}/`) && path !== join(directory, 'log'));
    },
    replaceCertificate: () => certificateIn(directory),
    reload: () => {
      program.child.kill(kind.reloadSignal);
    },
    workers: async () => {
      const pid = program.child.pid ?? '';
      return (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).split(' ').filter(Boolean);
    },
    stop: async () => {
      // The other processes end only with the main process.
      if (reloads) await program.end('SIGTERM');
      await workspace.dispose();
    },
  };
}

export function changed(configuration: string, changes: readonly Change[]): string {
  return changes.reduce((text, [from, to]) => {
    const after = text.replace(from, to);
    if (after === text) throw new Error(`The configuration has no ${String(from)}.`);
    return after;
  }, configuration);
}

async function certificateIn(directory: string): Promise<string> {
  const { certificate, key, certificatePath } = await selfSigned(directory, 'certificate');
  // Certificate and key are in one file, as HAProxy needs and nginx accepts.
  await writeFile(certificatePath, certificate + key);
  return certificate;
}

async function accepts(port: number, program: Program): Promise<void> {
  const ended = program.exited.then(() => {
    throw new Error(`The proxy ended: ${program.stderr}`);
  });
  for (let isOpen = false; !isOpen; ) {
    const attempt = new Promise<boolean>((found) => {
      const socket = connect(port, '127.0.0.1', () => { socket.destroy(); found(true); }).once('error', () => setTimeout(found, RETRY_MS, false));
    });
    isOpen = await Promise.race([attempt, ended]);
  }
  ended.catch(() => undefined);
}
