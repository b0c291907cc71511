import { readFile, writeFile } from 'node:fs/promises';

/** Measures how much the resident memory of a process grows, as Linux reports it. */
export class MemoryMeter {
  #pid;
  #before = 0;

  constructor(pid) {
    this.#pid = pid;
  }

  async begin() {
    await writeFile(`/proc/${this.#pid}/clear_refs`, '5');
    this.#before = await this.now();
  }

  now() {
    return this.#bytes('VmRSS');
  }

  /** The base (`before`), the peak since `begin`, and the difference between peak and base (`growth`), in bytes. */
  async read() {
    const peak = await this.#bytes('VmHWM');
    return { before: this.#before, peak, growth: peak - this.#before };
  }

  async #bytes(name) {
    const status = await readFile(`/proc/${this.#pid}/status`, 'utf8');
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024;
  }
}
