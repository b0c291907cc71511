import { once } from 'node:events';
import { WebSocket } from 'undici';

/** The option that lets a `GarbageCollector` reach a Node process, by Node's inspector. */
export const INSPECTED = '--inspect=127.0.0.1:0';

/**
 * Collects the garbage of a service process before its memory is read, which otherwise depends on the last collection.
 */
export class GarbageCollector {
  #socket;
  #calls = 0;

  static async connect({ output }) {
    const collector = new GarbageCollector();
    collector.#socket = new WebSocket(/ws:\/\/\S+/.exec(output)[0]);
    await Promise.race([once(collector.#socket, 'open'), once(collector.#socket, 'close')]);
    return collector;
  }

  async collect() {
    if (this.#socket.readyState !== WebSocket.OPEN) throw new Error('The service has ended.');
    const id = ++this.#calls;
    const ended = new AbortController();
    const whenClosed = once(this.#socket, 'close', { signal: ended.signal }).then(() => {
      throw new Error('The service has ended.');
    });
    try {
      this.#socket.send(JSON.stringify({ id, method: 'HeapProfiler.collectGarbage' }));
      for (let answered; answered !== id; ) {
        const [{ data }] = await Promise.race([once(this.#socket, 'message'), whenClosed]);
        answered = JSON.parse(data).id;
      }
    } finally {
      whenClosed.catch(() => undefined);
      ended.abort();
    }
  }

  close() {
    this.#socket.close();
  }
}
