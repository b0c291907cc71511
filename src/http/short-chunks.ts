import type { IncomingMessage } from 'node:http';

const SHORT_BYTES = 1_024;
const MIN_CAPACITY = 1_024;

/**
 * Adds the short chunks of a chunked body (RFC 9112, section 7.1) to the request's stream together. Node would add them
 * one by one. For chunks of one byte, that takes several times as long as parsing them. Must be called before the body
 * arrives.
 */
export function gatherShortChunks(request: IncomingMessage): void {
  const push = request.push.bind(request);
  let gathered = Buffer.alloc(0);
  let length = 0;

  function add(chunk: Buffer): void {
    if (length + chunk.length > gathered.length) {
      const larger = Buffer.allocUnsafe(Math.max(MIN_CAPACITY, 2 * (length + chunk.length)));
      gathered.copy(larger, 0, 0, length);
      gathered = larger;
    }
    gathered.set(chunk, length);
    length += chunk.length;
  }

  function flush(): void {
    if (length === 0) return;
    const piece = gathered.subarray(0, length);
    gathered = Buffer.alloc(0);
    length = 0;
    push(piece);
  }

  request.push = (chunk: Buffer | null): boolean => {
    if (chunk === null || chunk.length > SHORT_BYTES) {
      flush();
      return push(chunk);
    }
    if (length === 0) setImmediate(flush);
    add(chunk);
    // Returning false keeps Node from reading more from the socket until the request's stream is read.
    return false;
  };
}
