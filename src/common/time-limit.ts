/**
 * Settles as `work` does, if that settles within `limitMs` milliseconds after it began or last called `onProgress`.
 * Otherwise rejects with the error that `silence` returns, and ignores the later outcome of the work.
 *
 * @param onSilence called with that error after the rejection, for example to abort the work.
 */
export async function withTimeLimit<T>(
  limitMs: number,
  work: (onProgress: () => void) => Promise<T>,
  silence: () => Error,
  onSilence?: (error: Error) => void,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const silent = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = silence();
      reject(error);
      onSilence?.(error);
    }, limitMs);
  });
  try {
    return await Promise.race([work(() => timer?.refresh()), silent]);
  } finally {
    clearTimeout(timer);
  }
}
