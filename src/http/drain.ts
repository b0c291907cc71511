import type { IncomingMessage } from 'node:http';
import { bodyPace } from './body-pace.js';

const MAX_DRAINED_BYTES = 64 * 1024 * 1024;
const MAX_DRAIN_MS = 5_000;

/**
 * Reads and discards what the client still sends of a request that was answered early. Stops at the end of the request,
 * after 64 MiB or after five seconds. Closing the connection at once would reset it, and the client might never read
 * the answer.
 *
 * @returns whether the request has arrived completely, so that the connection can be reused.
 */
export function drain(request: IncomingMessage): Promise<boolean> {
  return new Promise((resolve) => {
    let bytes = 0;
    const stop = (): void => {
      clearTimeout(timer);
      request.off('data', count).off('end', stop).off('close', stop).off('error', stop);
      resolve(request.complete);
    };
    const count = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > MAX_DRAINED_BYTES) stop();
      const mayContinue = bodyPace.next(chunk.length);
      if (!mayContinue) return;
      request.pause();
      void mayContinue.then(() => request.resume());
    };
    const timer = setTimeout(stop, MAX_DRAIN_MS);
    if (request.readableEnded || request.destroyed) {
      stop();
      return;
    }
    request.removeAllListeners('readable').on('data', count).once('end', stop).once('close', stop).once('error', stop);
    request.resume();
  });
}
