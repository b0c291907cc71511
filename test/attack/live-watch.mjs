import { fork } from 'node:child_process';
import { once } from 'node:events';

export const MOST_LIVE_MS = 250;

/** Watches `/health/live` of services from another process. */
export class LiveWatch {
  #prober;

  /**
   * @param {number[]} ports
   * @param {(slow: { port: number, ms: number, bareMs: number, cpuMs: number, ranMs: number, status?: number | 'none'
   *   }) => void} onSlow called for each answer other than 200, or over 250 ms after subtracting the time of a bare
   *   server at the same time and the wait of the service's main thread for a CPU. A refused connection is not an
   *   answer.
   */
  static async start(ports, onSlow) {
    const watch = new LiveWatch();
    watch.#prober = fork(new URL('prober.mjs', import.meta.url), [JSON.stringify(ports), String(MOST_LIVE_MS)]);
    await once(watch.#prober, 'message');
    watch.#prober.on('message', (message) => message.port && onSlow(message));
    return watch;
  }

  /** Notes that the process with this id now serves a port. */
  serves(port, pid) {
    this.#prober.send({ port, pid });
  }

  /**
   * Ends the watch.
   *
   * @returns {Promise<number>} the number of answers with 200.
   */
  async end() {
    const answered = new Promise((resolve) => this.#prober.on('message', (message) => message.port || resolve(message.probes)));
    this.#prober.send({});
    const probes = await answered;
    this.#prober.disconnect();
    return probes;
  }
}
