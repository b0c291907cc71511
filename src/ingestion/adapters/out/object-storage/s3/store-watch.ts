import { performance } from 'node:perf_hooks';
import { type S3Client, S3ServiceException } from '@aws-sdk/client-s3';
import { StoreSilentError } from '../bucket.js';
import { errorNameOf } from './s3-errors.js';

/** Timers may fire early: a time-out of the SDK up to this much too early still counts as the store's silence. */
const EARLY_MS = 100;
/**
 * A refusal with status 403 is put down to the time in the request's signature if that time differs more than this from
 * the store's. S3 itself allows 15 minutes.
 */
const WRONG_CLOCK_MS = 240_000;

/** Observes each request of the given S3 clients: the store's time in its answer, and whether the store was silent. */
export class StoreWatch {
  private readonly answeredAt = new WeakMap<object, number>();
  private aheadMs = 0;
  private readonly timeoutMs: number;
  private readonly onRetry: () => void;

  constructor(clients: readonly S3Client[], { timeoutMs, onRetry }: { readonly timeoutMs: number; readonly onRetry: () => void }) {
    this.timeoutMs = timeoutMs;
    this.onRetry = onRetry;
    for (const client of clients) this.see(client);
  }

  get storeTime(): number {
    return Date.now() + this.aheadMs;
  }

  /**
   * Age of an object when the store answered, in milliseconds; 0 if `lastModified` is undefined. S3 gives both times in
   * whole seconds.
   *
   * @param answer the output of the request that returned `lastModified`.
   */
  ageOf(lastModified: Date | undefined, answer: object): number {
    const now = this.answeredAt.get(answer) ?? Date.now();
    return Math.max(0, now - (lastModified?.getTime() ?? now));
  }

  /**
   * Notes the store's time in an answer, for `storeTime` and `ageOf`.
   *
   * @param output what `ageOf` knows the answer by.
   */
  note(answer: unknown, output: object): void {
    const { headers } = (answer ?? {}) as { readonly headers?: Readonly<Record<string, string | undefined>> };
    const answeredAt = Date.parse(headers?.date ?? '');
    if (Number.isNaN(answeredAt)) return;
    this.aheadMs = answeredAt - Date.now();
    this.answeredAt.set(output, answeredAt);
  }

  /**
   * Replaces the error for a silent socket: the SDK would retry, and wait for a silent store several times. Returns any
   * other error as it is.
   */
  translate(error: unknown, elapsedMs: number): unknown {
    const isTimeout = errorNameOf(error) === 'TimeoutError' && !(error instanceof Error && 'code' in error);
    return isTimeout && elapsedMs >= this.timeoutMs - EARLY_MS ? new StoreSilentError(this.timeoutMs) : error;
  }

  private see(client: S3Client): void {
    client.middlewareStack.add(
      (next) => async (args) => {
        const begun = performance.now();
        if (isRepeated(args.request)) this.onRetry();
        const { systemClockOffset: assumedAheadMs } = client.config;
        try {
          const result = await next(args);
          this.note(result.response, result.output ?? result);
          return result;
        } catch (error) {
          if (error instanceof S3ServiceException) {
            this.note(error.$response, error);
            markWrongClock(error, assumedAheadMs);
          }
          throw this.translate(error, performance.now() - begun);
        }
      },
      { step: 'deserialize', priority: 'high', name: 'storeWatch' },
    );
  }
}

/** Whether the SDK repeats a request: it numbers the attempts in a header, as in `attempt=2; max=3`. */
const isRepeated = (request: unknown): boolean => {
  const { headers } = request as { readonly headers: Readonly<Record<string, string | undefined>> };
  return !/^attempt=1\b/.test(headers['amz-sdk-request'] ?? 'attempt=1');
};

/**
 * Makes the SDK, or `persist`, repeat a request whose signature has a wrong time. The SDK signs with this machine's
 * time plus the offset that it learned from earlier answers. If this machine's clock was corrected since then, the
 * offset is wrong, and the SDK doesn't mark the refusal itself.
 */
function markWrongClock(error: S3ServiceException, assumedAheadMs: number): void {
  const { $metadata: metadata, $response: response } = error;
  const aheadMs = Date.parse(response?.headers.date ?? '') - Date.now();
  const isWrong = metadata.httpStatusCode === 403 && Math.abs(aheadMs - assumedAheadMs) > WRONG_CLOCK_MS;
  if (isWrong) Object.assign(metadata, { clockSkewCorrected: true });
}
