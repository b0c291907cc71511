/**
 * Runs `work` with a signal that SIGINT and SIGTERM abort. After such an interruption, ends the process once `work` has
 * cleaned up and settled.
 *
 * @param {(signal: AbortSignal) => Promise<boolean>} work
 * @returns {Promise<boolean>} the result of `work`.
 */
export async function interruptible(work) {
  const interruption = new AbortController();
  const interrupt = () => interruption.abort();
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  try {
    return await work(interruption.signal);
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
    return false;
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    if (interruption.signal.aborted) process.exit(130);
  }
}
