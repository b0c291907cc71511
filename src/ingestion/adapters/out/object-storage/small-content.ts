import { FREE_BYTES } from '../../../../common/memory-budget.js';
import { Head } from './head.js';

/** The bytes of a file: whole if they are few, otherwise as they arrive. */
export type SmallContent = { readonly whole: Buffer } | { readonly whole?: undefined; readonly bytes: AsyncIterable<Uint8Array> };

/** Reads a file whole if it has at most 64 KiB, and otherwise only its first bytes. Rejects with errors of `bytes`. */
export async function readSmallContent(bytes: AsyncIterable<Uint8Array>): Promise<SmallContent> {
  const head = new Head(FREE_BYTES);
  const rest = bytes[Symbol.asyncIterator]();
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) {
    if (!head.add(next.value)) return { bytes: joinedBytes([...head.take(), next.value], rest) };
  }
  return { whole: Buffer.concat(head.take()) };
}

async function* joinedBytes(first: Uint8Array[], rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    // Removes each chunk before it is passed on, so that a slow upload doesn't hold its first chunks until it ends.
    for (let chunk = first.shift(); chunk; chunk = first.shift()) yield chunk;
    for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value;
  } finally {
    await rest.return?.();
  }
}
