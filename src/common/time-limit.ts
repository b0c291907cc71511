/**
 * Settles like the call if it settles within the limit. Otherwise rejects with the error of `silence`. The call is not
 * cancelled, and its later outcome is ignored.
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
