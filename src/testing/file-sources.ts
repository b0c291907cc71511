import { setImmediate as nextIteration } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { MIB } from '../common/sizes.js';

const MEASURE_EVERY = 16;

let collectGarbage: (() => void) | undefined;

async function heldBytes(): Promise<number> {
  if (!collectGarbage) {
    setFlagsFromString('--expose-gc');
    collectGarbage = runInNewContext('gc') as () => void;
  }
  collectGarbage();
  // Collect twice: V8 frees the memory of collected buffers on another thread, for which the second collection waits.
  await nextIteration();
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

/** Yields chunks of 1 MiB. Every 16 MiB, throws if the process's buffers have grown by more than `heldMebibytes`. */
export async function* longFile(mebibytes: number, heldMebibytes: number): AsyncGenerator<Uint8Array> {
  const before = await heldBytes();
  for (let index = 0; index < mebibytes; index++) {
    yield Buffer.alloc(MIB, index % 251);
    if (index % MEASURE_EVERY > 0) continue;
    const held = Math.round(((await heldBytes()) - before) / MIB);
    if (held > heldMebibytes) throw new Error(`After ${index + 1} MiB of a file of ${mebibytes} MiB, ${held} MiB are held in memory, instead of at most ${heldMebibytes} MiB.`);
  }
}

/** A source of byte chunks. `mostAtOnce` is the largest number of chunks that were requested at the same time. */
export class CountingSource implements AsyncIterable<Uint8Array> {
  mostAtOnce = 0;
  ended = false;
  private asked = 0;

  constructor(private readonly chunks: Uint8Array[]) {}

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    let next = 0;
    return {
      next: async () => {
        this.mostAtOnce = Math.max(this.mostAtOnce, ++this.asked);
        await nextIteration();
        this.asked--;
        const value = this.chunks[next++];
        this.ended ||= value === undefined;
        return value ? { value, done: false } : { value: undefined, done: true };
      },
    };
  }
}
