import { setMaxListeners } from 'node:events';

/**
 * Calls the listener when the signal aborts, or at once if the signal has already aborted. Any number of listeners may
 * wait for one signal.
 *
 * @returns a function that removes the listener.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  // Without this, Node would warn that many listeners of one signal may be a leak.
  setMaxListeners(0, signal);
  signal.addEventListener('abort', listener);
  if (signal.aborted) listener();
  return () => {
    signal.removeEventListener('abort', listener);
  };
}
