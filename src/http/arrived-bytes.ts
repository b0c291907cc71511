import type { IncomingMessage } from 'node:http';
import { joined } from '../common/joined.js';

/**
 * Reads all bytes of a request's body that have arrived and weren't read yet; null if there are none. From Node 26 on,
 * one call of `request.read()` returns only the first chunk of them.
 */
export function arrivedBytes(request: IncomingMessage): Buffer | null {
  const first = request.read() as Buffer | null;
  if (first === null || request.readableLength === 0) return first;
  const chunks = [first];
  while (request.readableLength > 0) {
    const next = request.read() as Buffer | null;
    if (next === null) break;
    chunks.push(next);
  }
  return joined(chunks);
}
