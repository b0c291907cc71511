import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

/** The maximum length of a service's kept output, in characters. When there is more, the first half is dropped. */
const MOST_OUTPUT = 2 * 1024 * 1024;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];
/**
 * One promise for each call of `withServices` that a signal has interrupted. It resolves when the services of this call
 * have ended. The process exits once all of them have ended.
 */
const ends = [];

/**
 * Runs `work` with services in a new temporary directory. Afterwards ends the services and removes the directory, even
 * if `work` fails or a signal interrupts it.
 *
 * @template T
 * @param {(services: Services) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withServices(work) {
  const directory = await mkdtemp(join(tmpdir(), 'load-data-bench-'));
  const services = new Services(directory);
  let interruption;
  const interrupted = () => {
    const end = services.end();
    ends.push(end);
    interruption = end.finally(() => Promise.allSettled(ends)).finally(() => process.exit(130));
  };
  for (const signal of SIGNALS) process.once(signal, interrupted);
  try {
    return await work(services);
  } finally {
    for (const signal of SIGNALS) process.off(signal, interrupted);
    await (interruption ?? services.end());
  }
}

/**
 * Starts service processes, by default on one DATA_DIR one after another, or processes of another program that prints a
 * ready line like the service. Ends those that still run.
 */
export class Services {
  #running = new Set();
  #cleanups = [];

  constructor(directory, program = resolve('dist/main.js')) {
    this.directory = directory;
    this.program = program;
    this.data = join(directory, 'data');
  }

  /**
   * Starts the service and waits for its ready line.
   *
   * @param {Record<string, string>} variables
   * @param {string} [program] another program that prints a ready line like the service
   */
  async start(variables, program) {
    const service = this.launch(variables, program);
    await service.ready;
    return service;
  }

  launch(variables = {}, program = this.program) {
    const env = { PATH: process.env.PATH, PORT: '0', LOG_LEVEL: 'error', UV_THREADPOOL_SIZE: '16', DATA_DIR: this.data, ...variables };
    const child = spawn(process.execPath, [program], { cwd: this.directory, env });
    const service = new Service(child, env);
    this.#running.add(service);
    service.exited.then(() => this.#running.delete(service));
    return service;
  }

  /** Has a function run in `end`, when no service runs any more and the directory still exists. */
  atEnd(cleanup) {
    this.#cleanups.push(cleanup);
  }

  async end() {
    await Promise.all([...this.#running].map((service) => service.end('SIGKILL')));
    await Promise.all(this.#cleanups.splice(0).map((cleanup) => cleanup()));
    await rm(this.directory, { recursive: true, force: true });
  }
}

class Service {
  output = '';

  constructor(child, env) {
    this.child = child;
    this.env = env;
    this.exited = new Promise((done) => child.once('close', (code, signal) => done({ code, signal })));
    this.ready = new Promise((done, failed) => {
      const keep = (text) => {
        this.output += text;
        if (this.output.length > MOST_OUTPUT) this.output = this.output.slice(-MOST_OUTPUT / 2);
        // Once the service is ready, its log isn't searched, which would take the processor from the service.
        if (this.url) return;
        const url = /^[^{].*?(http:\/\/\S+)/m.exec(this.output)?.[1];
        if (url) {
          this.url = url;
          this.port = Number(new URL(url).port);
          done();
        }
      };
      child.stdout.setEncoding('utf8').on('data', keep);
      child.stderr.setEncoding('utf8').on('data', (text) => (this.output += text));
      this.exited.then(() => failed(new Error(`The service did not start: ${this.output}`)));
    });
    // Callers need not wait for `ready`. Without this handler, its rejection would count as unhandled and end this
    // process.
    this.ready.catch(() => undefined);
  }

  /** Rejects as soon as the process ends. Never resolves. @param {string} title the program's name in the message */
  async death(title) {
    await this.exited;
    throw new Error(`${title} ended by itself: ${this.output}`);
  }

  async token() {
    const { stdout } = await promisify(execFile)(process.execPath, ['dist/commands/token.js'], { env: this.env });
    return stdout.trim();
  }

  end(signal) {
    this.child.kill(signal);
    return this.exited;
  }
}
