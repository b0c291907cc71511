/**
 * Reads the body of an answer into one buffer. Gathering its pieces in order to join them would take the memory of the
 * whole body twice.
 *
 * @param length how many bytes the store has announced. Further bytes are read too, but they are gathered and joined.
 * @throws errors of `pieces`.
 */
export async function wholeBody(pieces: AsyncIterable<Uint8Array>, length = 0): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length);
  const further: Uint8Array[] = [];
  let end = 0;
  for await (const piece of pieces) {
    if (further.length === 0 && end + piece.length <= length) {
      bytes.set(piece, end);
      end += piece.length;
    } else {
      further.push(piece);
    }
  }
  return further.length === 0 ? bytes.subarray(0, end) : Buffer.concat([bytes.subarray(0, end), ...further]);
}
