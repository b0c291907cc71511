import type { RawAnswer } from './api-connections.js';

/**
 * Lets callers that wait for their turn to read the same path share one call. A caller gets only answers to reads that
 * were sent after the caller joined, so a shared answer is never older than the caller's request.
 */
export class SharedReads {
  private readonly readers = new Map<string, Set<SharedReader>>();

  /** Calls `work` with a reader of the path, which shares its answers with the path's other readers. */
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

/** A caller that waits for its turn to read a path. */
export class SharedReader {
  /** The answer to the latest read of the path that another reader has sent since this one joined. */
  private answer: Promise<RawAnswer> | undefined;

  /** @param readers all readers of the same path that have joined. */
  constructor(private readonly readers: ReadonlySet<SharedReader>) {}

  /**
   * The answer to another reader's call. Undefined if there was no such call since this reader joined. Resolves to
   * undefined if the answer doesn't satisfy `isUsable`, or the call failed; the failed call's own caller reports that.
   */
  sharedAnswer(isUsable: (answer: RawAnswer) => boolean): Promise<RawAnswer | undefined> | undefined {
    return this.answer?.then(
      (answer) => (isUsable(answer) ? answer : undefined),
      () => undefined,
    );
  }

  /** Makes the call for all readers of the path that have joined by now. */
  async send(call: () => Promise<RawAnswer>): Promise<RawAnswer> {
    const answer = call();
    for (const reader of this.readers) if (reader !== this) reader.answer = answer;
    return await answer;
  }
}
