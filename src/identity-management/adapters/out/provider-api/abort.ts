import { setMaxListeners } from 'node:events';

/**
 * Calls back when the signal aborts, at once where it has already. Any number may wait for one signal.
 *
 * @returns what ends that.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  // Node takes many listeners for a leak.
  setMaxListeners(0, signal);
  signal.addEventListener('abort', listener);
  if (signal.aborted) listener();
  return () => {
    signal.removeEventListener('abort', listener);
  };
}
