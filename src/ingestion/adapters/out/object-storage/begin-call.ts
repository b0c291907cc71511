import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * One iteration of the event loop begins at most MAX_CALLS calls to stores. It begins none later than MAX_TURN_MS
 * milliseconds after the first one.
 */
const MAX_CALLS = 4;
const MAX_TURN_MS = 5;

type Queue = (() => void)[];
/** The calls that wait and aren't part of a job. */
const single: Queue = [];
/**
 * One queue of waiting calls for each job that has any (see `asJob`). Of all these calls, the first one of the first
 * queue begins next.
 */
const jobs: Queue[] = [];
const currentJob = new AsyncLocalStorage<Queue>();
/** Whether a call to a store has begun in this iteration of the event loop. Further calls are then queued. */
let hasBegun = false;

/**
 * Runs work that makes hundreds of calls to a store at once, such as listing a page of uploads. Calls outside of jobs,
 * such as those of an upload, don't wait until all of these have begun. Several jobs begin their calls in turn.
 */
export const asJob = <Result>(work: () => Promise<Result>): Promise<Result> => currentJob.run([], work);

/**
 * Resolves when a call to a store may begin. The SDKs of stores need about a millisecond of processor time to begin a
 * call, and several milliseconds in a process that has just started. So one iteration of the event loop begins at most
 * four calls, all within 5 ms of the first. Between iterations, other requests are answered. While calls outside of
 * jobs wait, only the first call of each iteration may be one of a job (`asJob`).
 */
export function beginCall(): Promise<void> {
  return new Promise((resolve) => {
    const queue = currentJob.getStore() ?? single;
    if (queue !== single && queue.length === 0) jobs.push(queue);
    queue.push(resolve);
    if (!hasBegun) beginCalls();
  });
}

function beginCalls(): void {
  hasBegun = true;
  const end = performance.now() + MAX_TURN_MS;
  let begun = 0;
  const beginNext = (): void => {
    const next = (begun === 0 ? nextOfJobs() : undefined) ?? single.shift() ?? nextOfJobs();
    next?.();
    begun += 1;
    // The SDK begins a call in microtasks. The queue of `nextTick` runs only when no microtask is left, so the next
    // call begins only after the SDK's work for the call before it.
    queueMicrotask(() => {
      process.nextTick(() => {
        if (isAnyWaiting() && begun < MAX_CALLS && performance.now() < end) beginNext();
        else setImmediate(endIteration);
      });
    });
  };
  beginNext();
}

function nextOfJobs(): (() => void) | undefined {
  const job = jobs.shift();
  const next = job?.shift();
  if (job && job.length > 0) jobs.push(job);
  return next;
}

function endIteration(): void {
  hasBegun = false;
  if (isAnyWaiting()) beginCalls();
}

const isAnyWaiting = (): boolean => single.length > 0 || jobs.length > 0;
