import { performance } from 'node:perf_hooks';
import type { S3Client } from '@aws-sdk/client-s3';
import { StoreSilentError } from '../bucket.js';
import { errorNameOf } from './s3-errors.js';

/** Timers may be early by so much. */
const EARLY_MS = 100;

/** Sees each request of a client: by which clock the store answered, and whether it was silent. */
export class StoreWatch {
  /** Milliseconds since 1970, by the store's clock. */
  private readonly answeredAt = new WeakMap<object, number>();

  constructor(
    client: S3Client,
    private readonly timeoutMs: number,
  ) {
    client.middlewareStack.add(
      (next) => async (args) => {
        const begun = performance.now();
        try {
          const result = await next(args);
          const { headers } = result.response as { readonly headers: Readonly<Record<string, string | undefined>> };
          const answeredAt = Date.parse(headers.date ?? '');
          if (result.output && !Number.isNaN(answeredAt)) this.answeredAt.set(result.output, answeredAt);
          return result;
        } catch (error) {
          throw this.translate(error, performance.now() - begun);
        }
      },
      { step: 'deserialize', priority: 'high', name: 'storeWatch' },
    );
  }

  /** How old an object is, in milliseconds, that the store told of in an answer. Both times are of whole seconds in S3. */
  ageOf(lastModified: Date | undefined, answer: object): number {
    const now = this.answeredAt.get(answer) ?? Date.now();
    return Math.max(0, now - (lastModified?.getTime() ?? now));
  }

  /** The SDK repeats its own time-outs, so that a silent store would be waited for several times. */
  private translate(error: unknown, elapsedMs: number): unknown {
    const isTimeout = errorNameOf(error) === 'TimeoutError' && !(error instanceof Error && 'code' in error);
    return isTimeout && elapsedMs >= this.timeoutMs - EARLY_MS ? new StoreSilentError(this.timeoutMs) : error;
  }
}
