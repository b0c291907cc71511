import { subscribe, unsubscribe } from 'node:diagnostics_channel';

/**
 * Runs `work`, and resolves to the largest number of HTTP requests that were begun in one iteration of the event loop
 * meanwhile.
 */
export async function mostBegunAtOnce(work: () => Promise<unknown>): Promise<number> {
  let [begun, most] = [0, 0];
  const count = (): void => {
    begun += 1;
  };
  let next: NodeJS.Immediate | undefined;
  const observe = (): void => {
    most = Math.max(most, begun);
    begun = 0;
    next = setImmediate(observe);
  };
  subscribe('http.client.request.start', count);
  observe();
  try {
    await work();
    return Math.max(most, begun);
  } finally {
    unsubscribe('http.client.request.start', count);
    clearImmediate(next);
  }
}
