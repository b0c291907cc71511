import { fork } from 'node:child_process';
import { once } from 'node:events';

export const MOST_LIVE_MS = 250;

/** Requests `/health/live` of services continuously, from another process, and reports bad answers. */
export class LiveWatch {
  #prober;

  /**
   * @param {number[]} ports the ports of the services
   * @param {(slow: { port: number, ms: number, bareMs: number, cpuMs: number, ranMs: number, status?: number | 'none'
   *   }) => void} onSlow called for each answer other than 200, and for each answer that takes more than 250 ms after
   *   subtracting two times: that of a bare server at the same time, and the wait of the service's main thread for a
   *   CPU. A refused connection is not an answer.
   */
  static async start(ports, onSlow) {
    const watch = new LiveWatch();
    watch.#prober = fork(new URL('prober.mjs', import.meta.url), [JSON.stringify(ports), String(MOST_LIVE_MS)]);
    await once(watch.#prober, 'message');
    watch.#prober.on('message', (message) => message.port && onSlow(message));
    return watch;
  }

  serves(port, pid) {
    this.#prober.send({ port, pid });
  }

  /**
   * Ends the watch of `/health/live`.
   *
   * @returns {Promise<{ probes: number, starved: number }>} the number of answers with 200, and of further ones for
   *   which the service had waited for a CPU for more than 250 ms.
   */
  async end() {
    const answered = new Promise((resolve) => this.#prober.on('message', (message) => message.port || resolve(message)));
    this.#prober.send({});
    const { probes, starved } = await answered;
    this.#prober.disconnect();
    return { probes, starved };
  }
}
