import { setMaxListeners } from 'node:events';

/**
 * Calls the listener when the signal aborts, or at once if it has aborted already. One signal may have any number of
 * listeners.
 *
 * @returns a function that removes the listener.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  // 0 means no limit. With a limit, Node would warn of a possible memory leak when many listeners wait for one signal.
  setMaxListeners(0, signal);
  signal.addEventListener('abort', listener);
  if (signal.aborted) listener();
  return () => {
    signal.removeEventListener('abort', listener);
  };
}
