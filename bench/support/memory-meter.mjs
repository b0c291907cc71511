import { readFile, writeFile } from 'node:fs/promises';

/** How much a process's memory grows, by Linux's own account. */
export class MemoryMeter {
  #pid;
  #before = 0;

  constructor(pid) {
    this.#pid = pid;
  }

  /** Begins: what the process has now is the base, and its peak is forgotten. */
  async begin() {
    await writeFile(`/proc/${this.#pid}/clear_refs`, '5');
    this.#before = await this.now();
  }

  /** What the process has now, in bytes. */
  now() {
    return this.#bytes('VmRSS');
  }

  /** The base, the peak since then, and what lies between, in bytes. */
  async read() {
    const peak = await this.#bytes('VmHWM');
    return { before: this.#before, peak, growth: peak - this.#before };
  }

  async #bytes(name) {
    const status = await readFile(`/proc/${this.#pid}/status`, 'utf8');
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024;
  }
}
