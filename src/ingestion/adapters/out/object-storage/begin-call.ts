/** Each iteration of the event loop begins at most MOST_CALLS calls to stores, and none after MOST_MS milliseconds. */
const MOST_CALLS = 4;
const MOST_MS = 5;

const waiting: (() => void)[] = [];
/** Whether a call to a store has begun in this iteration of the event loop. Further calls are then queued. */
let hasBegun = false;

/**
 * Resolves when a call to a store may begin; calls begin in the order of their requests. The SDKs of stores need about
 * a millisecond of processor time to begin a call, and several milliseconds in a process that has just started. So one
 * iteration of the event loop begins at most four calls, and none after 5 ms. Between iterations, other requests are
 * answered.
 */
export function beginCall(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (!hasBegun) beginCalls();
  });
}

function beginCalls(): void {
  hasBegun = true;
  const end = performance.now() + MOST_MS;
  let begun = 0;
  const beginNext = (): void => {
    waiting.shift()?.();
    begun += 1;
    // The SDK begins the call in microtasks. The queue of `nextTick` runs only when no microtask is left, so the next
    // call begins after the SDK's work for this one.
    queueMicrotask(() => {
      process.nextTick(() => {
        if (waiting.length > 0 && begun < MOST_CALLS && performance.now() < end) beginNext();
        else setImmediate(endIteration);
      });
    });
  };
  beginNext();
}

function endIteration(): void {
  hasBegun = false;
  if (waiting.length > 0) beginCalls();
}
