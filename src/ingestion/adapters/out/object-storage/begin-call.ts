/** How many calls to stores begin in one iteration of the event loop. */
const MOST_AT_ONCE = 4;

const waiting: (() => void)[] = [];
let begun = 0;
let isScheduled = false;

function beginNext(): void {
  for (; begun < MOST_AT_ONCE && waiting.length > 0; begun++) waiting.shift()?.();
  if (isScheduled || begun === 0) return;
  isScheduled = true;
  setImmediate(() => {
    isScheduled = false;
    begun = 0;
    beginNext();
  });
}

/**
 * Resolves when a call to a store may begin. The SDKs of stores need milliseconds of processor time for each call. So
 * at most four calls begin in one iteration of the event loop, in the order in which they asked, and the process
 * answers other requests between the iterations.
 */
export function beginCall(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    beginNext();
  });
}
