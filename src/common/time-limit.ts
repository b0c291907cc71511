/**
 * Settles like the promise `call`, if that settles within `limitMs` milliseconds. Otherwise rejects with the error that
 * `silence` returns. The work behind `call` isn't cancelled then, and its later outcome is ignored.
 */
export const withTimeLimit = <T>(limitMs: number, call: Promise<T>, silence: () => Error): Promise<T> => withSilenceLimit(limitMs, () => call, silence);

/** Like `withTimeLimit`, but the limit restarts each time the work calls `onProgress`. */
export async function withSilenceLimit<T>(limitMs: number, work: (onProgress: () => void) => Promise<T>, silence: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const silent = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(silence());
    }, limitMs);
  });
  try {
    return await Promise.race([work(() => timer?.refresh()), silent]);
  } finally {
    clearTimeout(timer);
  }
}
