import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

/**
 * Gives work a directory of its own, and removes it, and what runs in it, whatever happens.
 *
 * @param {(services: Services) => Promise<boolean>} work
 * @returns {Promise<boolean>}
 */
export async function withServices(work) {
  const directory = await mkdtemp(join(tmpdir(), 'load-data-bench-'));
  const services = new Services(directory);
  const interrupted = () => {
    services.end().finally(() => process.exit(130));
  };
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  try {
    return await work(services);
  } finally {
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
    await services.end();
  }
}

/** Service processes, one after the other, on one DATA_DIR; or those of another program that starts as the service does. */
export class Services {
  #running = new Set();

  constructor(directory, program = resolve('dist/main.js')) {
    this.directory = directory;
    this.program = program;
    this.data = join(directory, 'data');
  }

  /**
   * Starts the service and waits for its ready line.
   *
   * @param {Record<string, string>} variables
   */
  async start(variables = {}) {
    const env = { PATH: process.env.PATH, PORT: '0', LOG_LEVEL: 'error', UV_THREADPOOL_SIZE: '16', DATA_DIR: this.data, ...variables };
    const child = spawn(process.execPath, [this.program], { cwd: this.directory, env });
    const service = new Service(child, env);
    this.#running.add(service);
    service.exited.then(() => this.#running.delete(service));
    await service.ready;
    return service;
  }

  async end() {
    await Promise.all([...this.#running].map((service) => service.end('SIGKILL')));
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
  }

  /** An access token of the administrator. */
  async token() {
    const { stdout } = await promisify(execFile)(process.execPath, ['dist/token.js'], { env: this.env });
    return stdout.trim();
  }

  /** Sends a signal and waits for the end. */
  end(signal) {
    this.child.kill(signal);
    return this.exited;
  }
}
