import { once } from 'node:events';
import { get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

const PAUSE_MS = 20;

/**
 * Requests `/health/live` of a service repeatedly. Runs on a separate thread, so that the bench's other work doesn't
 * delay these requests.
 */
export class LiveProbe {
  #worker;

  static async start(url) {
    const probe = new LiveProbe();
    probe.#worker = new Worker(new URL(import.meta.url), { workerData: url });
    await once(probe.#worker, 'message');
    return probe;
  }

  /** Ends the requests. @returns {Promise<number>} the longest time until an answer, in milliseconds. */
  async end() {
    this.#worker.postMessage('end');
    const [longest] = await once(this.#worker, 'message');
    return longest;
  }
}

async function latency(url) {
  const began = performance.now();
  const [answer] = await once(get(`${url}/health/live`, { agent: false }), 'response');
  await once(answer.resume(), 'end');
  return performance.now() - began;
}

if (!isMainThread) {
  let longest = 0;
  let isOver = false;
  parentPort.once('message', () => { isOver = true; });
  // The first request isn't measured, because it takes longer: it loads modules of this thread.
  await latency(workerData);
  parentPort.postMessage('started');
  while (!isOver) {
    longest = Math.max(longest, await latency(workerData));
    await delay(PAUSE_MS);
  }
  parentPort.postMessage(longest);
}
