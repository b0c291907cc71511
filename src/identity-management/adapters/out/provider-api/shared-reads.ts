import type { RawAnswer } from './api-connections.js';

/**
 * Lets callers share one call if they wait in the rate limiter's queue to read the same path. A caller gets only
 * answers to calls that were sent after the caller began to wait, so an answer is never older than the caller's
 * request.
 */
export class SharedReads {
  private readonly readers = new Map<string, Set<SharedReader>>();

  /**
   * Calls `work` with a reader of the path. While `work` runs, the reader shares answers with the path's other readers.
   */
  async join<Result>(path: string, work: (reader: SharedReader) => Promise<Result>): Promise<Result> {
    const readers = this.readers.get(path) ?? new Set();
    this.readers.set(path, readers);
    const reader = new SharedReader(readers);
    readers.add(reader);
    try {
      return await work(reader);
    } finally {
      readers.delete(reader);
      if (readers.size === 0) this.readers.delete(path);
    }
  }
}

/** A caller that waits to read a path, and shares answers with the others that wait to read the same path. */
export class SharedReader {
  /** The answer to the latest call that another reader of the path has sent while this reader waits. */
  private answer: Promise<RawAnswer> | undefined;

  /** @param readers the readers of the same path that have joined, including this one. Changes as others join. */
  constructor(private readonly readers: ReadonlySet<SharedReader>) {}

  /**
   * The answer to the latest call that another reader has made since this reader joined. Undefined if there is no such
   * call. The promise resolves to undefined if the answer doesn't satisfy `isUsable`, or the call failed. The failure
   * is reported only to the reader that made the call.
   */
  sharedAnswer(isUsable: (answer: RawAnswer) => boolean): Promise<RawAnswer | undefined> | undefined {
    return this.answer?.then(
      (answer) => (isUsable(answer) ? answer : undefined),
      () => undefined,
    );
  }

  /** Makes a call. All other readers that have joined by now get the promise of its answer at once. */
  async send(call: () => Promise<RawAnswer>): Promise<RawAnswer> {
    const answer = call();
    for (const reader of this.readers) if (reader !== this) reader.answer = answer;
    return await answer;
  }
}
