import type { RawAnswer } from './api-connections.js';

/**
 * Lets callers share one call if they wait in the rate limiter's queue to read the same path. An answer is never older
 * than the request of the caller that gets it.
 */
export class SharedReads {
  private readonly readers = new Map<string, Set<SharedReader>>();

  /** Calls `work` with a reader, which shares answers with the path's other readers while `work` runs. */
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

/** A caller that waits to read a path. */
export class SharedReader {
  private answer: Promise<RawAnswer> | undefined;

  constructor(private readonly readers: ReadonlySet<SharedReader>) {}

  /**
   * The answer to the latest call of another reader since this one joined; undefined if there is none. Resolves to
   * undefined if the answer isn't usable or the call failed: only the reader that made the call reports a failure.
   */
  sharedAnswer(isUsable: (answer: RawAnswer) => boolean): Promise<RawAnswer | undefined> | undefined {
    return this.answer?.then(
      (answer) => (isUsable(answer) ? answer : undefined),
      () => undefined,
    );
  }

  /** Makes a call, whose answer all other readers that have joined by now get too. */
  async send(call: () => Promise<RawAnswer>): Promise<RawAnswer> {
    const answer = call();
    for (const reader of this.readers) if (reader !== this) reader.answer = answer;
    return await answer;
  }
}
