/** `Promise.all`, but it rejects only when nothing is under way any more. */
export async function allDone<const T extends readonly unknown[]>(promises: T): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}
