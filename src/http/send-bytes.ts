import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { answerMemory } from '../common/memory-budget.js';
import { MIB } from '../common/sizes.js';
import { sendJson } from './exchange.js';
import { answerError, toServiceError } from './service-exception.filter.js';

/**
 * Sends bytes as the body of a response, no faster than the client reads, and ends the response. The caller must have
 * set the status and headers. If reading the bytes fails before any was sent, answers with the error. If it fails
 * later, or the number of bytes isn't the Content-Length, breaks the connection, so that no client takes a part for the
 * whole. Resolves in all these cases, and when the client has gone.
 *
 * A chunk that was sent is passed to the iterator's `next`, which may use its memory again.
 *
 * @param idleTimeoutMs how long nothing may be sent, because the client reads nothing or `bytes` yields nothing. After
 * that, the connection is broken.
 */
export async function sendBytes(request: IncomingMessage, response: ServerResponse, bytes: AsyncIterable<Uint8Array>, idleTimeoutMs: number): Promise<void> {
  const iterator = bytes[Symbol.asyncIterator]();
  const { socket } = request;
  response.strictContentLength = true;
  let stopWaiting = (): void => undefined;
  const onClose = (): void => {
    stopWaiting();
  };
  response.once('close', onClose);
  // The socket is observed too: a pipelined response that waits for its turn gets no event when its connection is lost.
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

/** JSON of up to 64 KiB is sent at once, because the buffers of the connection hold that much. */
const SHORT_JSON_BYTES = 64 * 1024;
const PIECE_BYTES = 64 * 1024;
/**
 * While other answers wait for memory, a client must take this much of long JSON in this time. It isn't less, because the
 * kernel takes the next piece when about a third of the connection's buffer is free, which may be a megabyte.
 */
const LEAST_TAKEN = { bytes: MIB, seconds: 30 };

/**
 * Sends JSON as the answer of an operation. Long JSON is sent piece by piece, so that a client that stops reading it
 * can't keep it in memory for longer than `idleTimeoutMs`. While another answer waits for memory, breaks the connection
 * of a client that takes less than 1 MiB in 30 seconds.
 */
export async function sendJsonBytes(request: IncomingMessage, response: ServerResponse, json: Buffer, idleTimeoutMs: number): Promise<void> {
  if (json.length <= SHORT_JSON_BYTES || request.method === 'HEAD') {
    sendJson(response, json);
    return;
  }
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', json.length);
  let sent = 0;
  function* pieces(): Generator<Buffer> {
    for (; sent < json.length; sent += PIECE_BYTES) yield json.subarray(sent, sent + PIECE_BYTES);
  }
  let [sentBefore, seconds] = [0, 0];
  const watch = setInterval(() => {
    if (answerMemory.isShort && ++seconds < LEAST_TAKEN.seconds) return;
    if (answerMemory.isShort && sent - sentBefore < LEAST_TAKEN.bytes) response.destroy();
    [sentBefore, seconds] = [sent, 0];
  }, 1_000);
  try {
    await sendBytes(request, response, Readable.from(pieces()), idleTimeoutMs);
  } finally {
    clearInterval(watch);
  }
}
