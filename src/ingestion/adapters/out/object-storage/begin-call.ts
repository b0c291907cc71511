import { AsyncLocalStorage } from 'node:async_hooks';

const MAX_CALLS = 4;
const MAX_TURN_MS = 5;

type Queue = (() => void)[];
const single: Queue = [];
/** The queues of the jobs (`asJob`) that have waiting calls, in the order in which the jobs begin their next calls. */
const jobs: Queue[] = [];
const currentJob = new AsyncLocalStorage<Queue>();
let hasBegun = false;

/**
 * Runs work that makes hundreds of calls to a store at once, such as listing a page of uploads, as a job. Calls outside
 * of jobs, such as those of an upload, don't wait until all calls of the jobs have begun.
 */
export const asJob = <Result>(work: () => Promise<Result>): Promise<Result> => currentJob.run([], work);

/**
 * Resolves when a call to a store may begin. To begin a call, a store's SDK needs up to a millisecond of processor time;
 * in a process that has just started, several. So each iteration of the event loop begins at most four calls, and none
 * after 5 ms.
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
    // The next call begins only when the SDK has begun this one, which it does in microtasks: a `nextTick` callback
    // that was set in a microtask runs only when no microtask is left.
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
