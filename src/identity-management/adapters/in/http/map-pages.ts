/** Maps each item. Closes the source when it is closed itself. */
export async function* mapPages<From, To>(
  pages: AsyncIterable<readonly From[]>,
  map: (item: From) => To,
): AsyncGenerator<To[], void, undefined> {
  for await (const page of pages) yield page.map(map);
}
