import { storageFailure } from '../../../../application/storage-failure.js';
import type { Bucket, ByteRange } from '../bucket.js';

/**
 * Opens an upload's file. A read that breaks off is continued as long as it makes progress, because a store may end a
 * download that its reader pauses for long.
 *
 * @param size the length of the file in bytes, according to its line.
 * @returns undefined if the file is missing.
 * @throws ServiceError `storage-failure`, including while the file is read, and if the file turns out to have another
 *   length.
 */
export async function openFile(bucket: Bucket, path: string, range: ByteRange | undefined, size: number): Promise<AsyncIterable<Uint8Array> | undefined> {
  const failure = storageFailure('A file could not be read.');
  const opened = await bucket.open(path, range).catch(failure);
  if (!opened) return undefined;
  const last = range?.last ?? size - 1;
  let position = range?.first ?? 0;
  let brokeAt = -1;
  let pieces = opened[Symbol.asyncIterator]();
  const next = async (): Promise<IteratorResult<Uint8Array, undefined>> => {
    for (;;) {
      try {
        const piece = await pieces.next();
        if (piece.done && position <= last) throw new Error('The file is shorter than its line says.');
        if (piece.done) return { done: true, value: undefined };
        position += piece.value.length;
        if (position > last + 1) throw new Error('The file is longer than its line says.');
        return { done: false, value: piece.value };
      } catch (error) {
        if (brokeAt === position || position > last) return failure(error);
        brokeAt = position;
        const again = await bucket.open(path, { first: position, last }).catch(failure);
        if (!again) return failure(error);
        pieces = again[Symbol.asyncIterator]();
      }
    }
  };
  // The iterator isn't a generator: one that is ended before its first piece couldn't release the connection.
  const iterator: AsyncIterableIterator<Uint8Array, undefined> = {
    [Symbol.asyncIterator]: () => iterator,
    next,
    return: async () => {
      await pieces.return?.();
      return { done: true, value: undefined };
    },
  };
  return iterator;
}
