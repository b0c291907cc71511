import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Logger } from '@nestjs/common';
import { MIB } from '../common/sizes.js';

const INTERVAL_MS = 10_000;
const PAUSE_MS = 30_000;
const NOTABLE_BYTES = 16 * MIB;
const IDLE_UTILIZATION = 0.01;

/**
 * Returns memory to the operating system when the process no longer needs it, for example after hundreds of clients
 * have gone. Every ten seconds, looks for two kinds of memory:
 *
 * - Unused objects and buffers. V8 frees them when the process allocates much else, which an idle process never does.
 * So garbage is collected when the process is idle: once after the start, which leaves some 20 MiB of garbage, and when
 * V8 has 16 MiB more than at its lowest.
 * - Free memory that glibc keeps between pieces in use. So malloc_trim(3) is called, in a thread of its own, after each
 * collection, and if the process has 16 MiB more outside V8 than at its lowest.
 *
 * The process can't measure how much of its memory is out of use, so a step is repeated after 30 seconds while its
 * condition holds. If a step fails, a warning is logged and nothing more is returned.
 */
export async function returnUnusedMemory(): Promise<void> {
  const trim = await mallocTrim();
  const ofV8 = new Growth(memoryOfV8);
  const others = new Growth(() => process.memoryUsage.rss() - memoryOfV8());
  let since = performance.eventLoopUtilization();
  let [collectedAt, trimmedAt] = [-Infinity, -Infinity];
  const look = async (): Promise<void> => {
    const now = performance.now();
    const used = performance.eventLoopUtilization();
    const isIdle = performance.eventLoopUtilization(used, since).utilization < IDLE_UTILIZATION;
    since = used;
    const [v8HasGrown, othersHaveGrown] = [ofV8.isNotable, others.isNotable];
    if (isIdle && (v8HasGrown || collectedAt === -Infinity) && now - collectedAt >= PAUSE_MS) {
      collectedAt = now;
      collectGarbage();
      // The next look, ten seconds later, returns what the collection freed, however recently memory was returned.
    } else if (trim && (trimmedAt < collectedAt || (othersHaveGrown && now - trimmedAt >= PAUSE_MS))) {
      trimmedAt = now;
      await trim();
    }
  };
  const schedule = (): void => {
    setTimeout(() => void look().then(schedule, reportFailure), INTERVAL_MS).unref();
  };
  schedule();
}

const reportFailure = (error: unknown): void => {
  new Logger('UnusedMemory').warn('Unused memory can no longer be returned to the system.', error);
};

class Growth {
  private least: number;

  constructor(private readonly bytes: () => number) {
    this.least = bytes();
  }

  get isNotable(): boolean {
    const bytes = this.bytes();
    this.least = Math.min(this.least, bytes);
    return bytes - this.least >= NOTABLE_BYTES;
  }
}

function memoryOfV8(): number {
  const { heapTotal, arrayBuffers } = process.memoryUsage();
  return heapTotal + arrayBuffers;
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

/** Returns a function that calls malloc_trim(3); undefined if the process has another C library than glibc. */
async function mallocTrim(): Promise<(() => Promise<unknown>) | undefined> {
  if (process.platform !== 'linux') return undefined;
  const { DataType, load, open } = await import('ffi-rs');
  const library = 'libc.so.6';
  try {
    open({ library, path: library });
  } catch {
    return undefined;
  }
  return () => load({ library, funcName: 'malloc_trim', retType: DataType.I32, paramsType: [DataType.U64], paramsValue: [0], runInNewThread: true });
}
