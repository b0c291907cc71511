/** Whether bytes contain a text, which may be spread over several chunks. */
export async function containsText(chunks: AsyncIterable<Uint8Array>, text: string): Promise<boolean> {
  const wanted = Buffer.from(text);
  let rest: Uint8Array = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk]);
    if (bytes.includes(wanted)) return true;
    rest = bytes.subarray(-wanted.length);
  }
  return false;
}
