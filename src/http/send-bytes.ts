import type { IncomingMessage, ServerResponse } from 'node:http';
import { answerError, toServiceError } from './service-exception.filter.js';

/**
 * Sends bytes as the body of a response, no faster than the client reads, and ends the response. The caller must have
 * set the status and headers. If reading the bytes fails, breaks the connection, so that no client takes a part for the
 * whole. Resolves when the response has ended or the client has gone. Ends the iterator of the bytes in any case.
 *
 * A chunk that was sent is passed to the iterator's `next`, which may use the memory of the chunk again.
 *
 * @param idleTimeoutMs how long the client may read nothing, in milliseconds. After that, the connection is broken.
 */
export async function sendBytes(request: IncomingMessage, response: ServerResponse, bytes: AsyncIterable<Uint8Array>, idleTimeoutMs: number): Promise<void> {
  const iterator = bytes[Symbol.asyncIterator]();
  const { socket } = request;
  let stopWaiting = (): void => undefined;
  const onClose = (): void => {
    stopWaiting();
  };
  response.once('close', onClose);
  // The socket is watched too: a pipelined response that waits for its turn gets no event when its connection is lost.
  socket.once('close', onClose);
  response.setTimeout(idleTimeoutMs, () => {
    response.destroy();
  });
  try {
    for (let next = await iterator.next(); !next.done; next = await iterator.next(next.value)) {
      const { value } = next;
      if (!response.destroyed && !socket.destroyed) {
        await new Promise<void>((sent) => {
          stopWaiting = sent;
          response.write(value, () => {
            sent();
          });
        });
      }
      if (response.destroyed || socket.destroyed) return;
    }
    response.end();
  } catch (error) {
    answerError(request, response, toServiceError(error));
  } finally {
    socket.off('close', onClose);
    await iterator.return?.();
  }
}
