import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { MIB } from '../common/sizes.js';
import { BodyArrival } from './body-arrival.js';

const MAX_DRAINED_BYTES = 64 * MIB;
const MAX_DRAIN_MS = 5_000;

/**
 * Discards what the client still sends of a request that was answered early, for at most 64 MiB and five seconds.
 * Closing the connection at once would reset it, and the client might never read the answer.
 *
 * @returns whether the request has arrived completely, so that the connection can be reused.
 */
export function drain(request: IncomingMessage): Promise<boolean> {
  return new Promise((resolve) => {
    let bytes = 0;
    let isReading = false;
    let isOver = false;
    const arrival = new BodyArrival(request);
    const stop = (): void => {
      isOver = true;
      clearTimeout(timer);
      request.off('readable', read).off('end', stop).off('close', stop).off('error', stop);
      resolve(request.complete);
    };
    const discard = async (): Promise<void> => {
      isReading = true;
      // While a read that found nothing is awaited, bytes may arrive, and `readable` isn't emitted for them again.
      do {
        bytes += (await arrival.read())?.length ?? 0;
        if (bytes > MAX_DRAINED_BYTES) stop();
      } while (!isOver && request.readableLength > 0);
      isReading = false;
    };
    const read = (): void => {
      if (!isReading) void discard();
    };
    const timer = setTimeout(stop, MAX_DRAIN_MS);
    if (request.readableEnded || request.destroyed) {
      stop();
      return;
    }
    request.removeAllListeners('readable').on('readable', read).once('end', stop).once('close', stop).once('error', stop);
    read();
  });
}

/**
 * Sends a last text on a connection, closes the sending side, and discards what the client still sends. Destroys the
 * connection after 64 MiB or five seconds.
 */
export function closeAfterDrain(socket: Socket, text = ''): void {
  let bytes = 0;
  socket.removeAllListeners('data').on('data', ({ length }: Buffer) => {
    bytes += length;
    if (bytes > MAX_DRAINED_BYTES) socket.destroy();
  });
  socket.end(text);
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), MAX_DRAIN_MS).unref();
  socket.once('close', () => {
    clearTimeout(timer);
  });
}
