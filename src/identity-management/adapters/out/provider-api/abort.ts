import { setMaxListeners } from 'node:events';

/** Calls the listener when the signal aborts, or at once if it has. Returns a function that removes the listener. */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  // The number of listeners isn't limited: otherwise, Node would warn of a leak when many wait for one signal.
  setMaxListeners(0, signal);
  signal.addEventListener('abort', listener);
  if (signal.aborted) listener();
  return () => {
    signal.removeEventListener('abort', listener);
  };
}
