/**
 * What a call to a store does: `read` opens an object to read it, and a call of any other kind is `small`. A page of the
 * list of uploads opens hundreds of objects, so an upload must not wait for these.
 */
export type CallKind = 'read' | 'small';

/**
 * Each iteration of the event loop begins at most MOST_CALLS calls to stores, and none after MOST_MS milliseconds. If
 * calls of both kinds wait, one of them is a read.
 */
const MOST_CALLS = 4;
const MOST_MS = 5;

const waiting: Readonly<Record<CallKind, (() => void)[]>> = { read: [], small: [] };
/** Whether a call to a store has begun in this iteration of the event loop. Further calls are then queued. */
let hasBegun = false;

/**
 * Resolves when a call to a store may begin. Calls of one kind begin in the order of their requests. The SDKs of stores
 * need about a millisecond of processor time to begin a call, and several milliseconds in a process that has just
 * started. So one iteration of the event loop begins at most four calls, and none after 5 ms. Between iterations, other
 * requests are answered.
 */
export function beginCall(kind: CallKind): Promise<void> {
  return new Promise((resolve) => {
    waiting[kind].push(resolve);
    if (!hasBegun) beginCalls();
  });
}

function beginCalls(): void {
  hasBegun = true;
  const end = performance.now() + MOST_MS;
  let begun = 0;
  const beginNext = (): void => {
    const next = (begun === 0 ? waiting.read.shift() : undefined) ?? waiting.small.shift() ?? waiting.read.shift();
    next?.();
    begun += 1;
    // The SDK begins the call in microtasks. The queue of `nextTick` runs only when no microtask is left, so the next
    // call begins after the SDK's work for this one.
    queueMicrotask(() => {
      process.nextTick(() => {
        if (isAnyWaiting() && begun < MOST_CALLS && performance.now() < end) beginNext();
        else setImmediate(endIteration);
      });
    });
  };
  beginNext();
}

function endIteration(): void {
  hasBegun = false;
  if (isAnyWaiting()) beginCalls();
}

const isAnyWaiting = (): boolean => waiting.small.length > 0 || waiting.read.length > 0;
