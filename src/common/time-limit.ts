/**
 * What a call gives, if it does so within so many milliseconds; otherwise rejects with `silence`'s error. The call itself
 * goes on, and how it ends then is nobody's concern.
 */
export async function withTimeLimit<T>(limitMs: number, call: Promise<T>, silence: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const silent = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(silence());
    }, limitMs);
  });
  try {
    return await Promise.race([call, silent]);
  } finally {
    clearTimeout(timer);
  }
}
