import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * The ports of servers. They are below the ports that Linux uses for outgoing connections by default, so that no
 * connection takes a server's port between kill and restart.
 */
const PORTS = { first: 20_000, count: 10_000 };
/**
 * The next port to try. Each process begins at a random port and counts up: two processes that draw each port at random
 * would now and then draw the same one, before either of them listens.
 */
let nextPort = Math.floor(Math.random() * PORTS.count);
const RETRY_MS = 30;
const MOST_READY_SECONDS = 180;
const MOST_OUTPUT = 10_000;

/**
 * A shell script that guards a server. It reads the server's process id from its input, and waits until its input ends,
 * as it does in whatever way the test process ends. It then kills the server and removes the server's data.
 */
const GUARD = `
while read -r pid; do running=$pid; done
[ -z "$running" ] || kill -KILL "$running"
rm -rf "$1"
`;

/**
 * A server in its own process, on a port of the loopback interface, with its data in a new temporary directory. Needs a
 * POSIX shell.
 */
export class Server {
  directory = mkdtempSync(join(tmpdir(), 'load-data-server-'));
  #guard = spawn('sh', ['-c', GUARD, 'sh', this.directory], { detached: true, stdio: ['pipe', 'ignore', 'inherit'] });
  #guarded = once(this.#guard, 'exit');
  #name;
  #log;
  #launch;
  #child;
  #exited;

  constructor(name, port, log) {
    this.#name = name;
    this.#log = log;
    this.endpoint = `http://127.0.0.1:${port}`;
  }

  get pid() {
    return this.#child.pid;
  }

  get exited() {
    return this.#exited;
  }

  /**
   * Starts the server and waits until it answers. If it ends before, or doesn't answer in 180 s, removes its data and
   * rejects with its output.
   *
   * @param {string} command
   * @param {string[]} parameters
   * @param {Record<string, string>} [env] variables in addition to PATH and HOME
   */
  async start(command, parameters, env = {}) {
    const { PATH, HOME } = process.env;
    this.#launch = () => spawn(command, parameters, { cwd: this.directory, env: { PATH, HOME, ...env }, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    try {
      await this.restart();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /**
   * Restarts the server after `kill()`, with the same port and data, and waits until it answers. Rejects with its
   * output if it ends before, or doesn't answer in 180 s.
   */
  async restart() {
    let output = '';
    const keep = (text) => {
      output = (output + text).slice(-MOST_OUTPUT);
      this.#log?.(text);
    };
    const child = (this.#child = this.#launch());
    const failure = new Promise((resolve) => child.once('error', ({ message }) => resolve(message)));
    const end = new Promise((resolve) => child.once('close', (code, signal) => resolve(`it ended with ${signal ?? code}`)));
    this.#exited = Promise.race([failure, end]);
    this.#sendToGuard(child.pid ?? '');
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', keep);

    const settled = new AbortController();
    const silence = delay(MOST_READY_SECONDS * 1000, `no answer in ${MOST_READY_SECONDS} s`, { signal: settled.signal });
    const obstacle = await Promise.race([this.#answer(settled.signal), this.#exited, silence]);
    settled.abort();
    if (obstacle) throw new Error(`${this.#name} did not start: ${obstacle}\n${output}`);
  }

  /**
   * Pauses the server's process (SIGSTOP). From when this resolves, the system still accepts connections to the server,
   * but nothing is answered.
   */
  async pause() {
    this.#child.kill('SIGSTOP');
    while (!(await isStopped(this.pid))) await delay(RETRY_MS);
  }

  resume() {
    this.#child.kill('SIGCONT');
  }

  async kill() {
    this.#child.kill('SIGKILL');
    await this.#exited;
    this.#sendToGuard('');
  }

  async stop() {
    await this.kill();
    this.#guard.stdin.end();
    await this.#guarded;
  }

  #sendToGuard(pid) {
    this.#guard.stdin.write(`${pid}\n`);
  }

  async #answer(signal) {
    while (!signal.aborted) {
      // Each request has an abort signal of its own: thousands of requests would add as many listeners to one.
      const isThere = await fetch(this.endpoint, { signal: AbortSignal.any([signal]) }).then(
        (response) => response.text().then(() => true),
        () => false,
      );
      if (isThere) return;
      await delay(RETRY_MS);
    }
  }
}

/**
 * Whether all threads of a process have stopped after SIGSTOP, which takes some milliseconds on a busy machine. Always
 * true except on Linux, which alone reports it.
 */
async function isStopped(pid) {
  if (process.platform !== 'linux') return true;
  const threads = await readdir(`/proc/${pid}/task`);
  const states = await Promise.all(threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8')));
  // In Linux's `stat` file, the thread's state follows the thread's name, which is in parentheses and may contain some
  // itself.
  return states.every((state) => state.slice(state.lastIndexOf(')')).startsWith(') T'));
}

/** Finds a free port of the loopback interface. */
export async function freePort() {
  for (;;) {
    const port = PORTS.first + (nextPort++ % PORTS.count);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    await new Promise((closed) => server.close(closed));
    return port;
  }
}

/**
 * Runs a server for a user of a shell until SIGINT or SIGTERM, or until it ends, and then removes it. Prints the
 * variables to set, then `Ready`.
 *
 * @param {() => Promise<{ server: Server, variables: Record<string, string> }>} start
 */
export async function serveShell(start) {
  const signalled = Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)));
  try {
    const { server, variables } = await start();
    for (const [name, value] of Object.entries(variables)) console.log(`export ${name}=${/^[\w./:-]*$/.test(value) ? value : `'${value}'`}`);
    console.log('Ready');
    const end = await Promise.race([signalled.then(() => undefined), server.exited]);
    await server.stop();
    if (end) throw new Error(`The server has ended: ${end}`);
  } catch ({ message }) {
    console.error(message);
    process.exitCode = 1;
  }
}
