import type { Answer } from './transport.js';

const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 10_000;

const PASSING = new Set([429, 502, 503, 504]);

export interface Patience {
  /** How often a request is sent at most, not counting answers that another one with its key is in progress (409). */
  readonly attempts: number;
  readonly inProgressTimeoutMs: number;
}

export interface Repeats extends Patience {
  readonly signal?: AbortSignal | undefined;
}

/**
 * Sends a request, and resolves to the last answer. Within the limits of `Patience`, the request is repeated after:
 *
 * - a failed connection
 * - an answer with 429, 502, 503 or 504
 * - an answer that says that another request with the same `Idempotency-Key` is in progress
 *
 * @throws the last error of `send`; the reason of the signal.
 */
export async function repeated<Result extends Answer>(send: () => Promise<Result>, { attempts, inProgressTimeoutMs, signal }: Repeats): Promise<Result> {
  const inProgressUntil = Date.now() + inProgressTimeoutMs;
  for (let sent = 1, failed = 0; ; sent++) {
    const outcome = await send().then(
      (answer) => ({ answer }),
      (error: unknown) => ({ error }),
    );
    const pauseMs = pauseAfter(sent, 'answer' in outcome ? outcome.answer : undefined);
    if ('answer' in outcome && isInProgress(outcome.answer)) {
      if (Date.now() + pauseMs > inProgressUntil) return outcome.answer;
    } else {
      const isLast = ++failed >= attempts;
      if ('answer' in outcome && (isLast || !PASSING.has(outcome.answer.status))) return outcome.answer;
      // Among errors, only a TypeError leads to a repeat: `fetch` rejects with one if the connection fails.
      if ('error' in outcome && (isLast || signal?.aborted || !(outcome.error instanceof TypeError))) throw outcome.error;
    }
    await pause(pauseMs, signal);
  }
}

/** Whether another request with the same key is in progress: no other answer with 409 has a `Retry-After`. */
const isInProgress = ({ status, header }: Answer): boolean => status === 409 && header('Retry-After') !== undefined;

/** The pause in ms, at least `Retry-After`. It grows after a 409, because each repeat sends the file again. */
function pauseAfter(sent: number, answer: Answer | undefined): number {
  const asked = Number(answer?.header('Retry-After') ?? Number.NaN) * 1000;
  const backoff = Math.min(FIRST_PAUSE_MS * 2 ** (sent - 1), MAX_PAUSE_MS) * (0.5 + Math.random() / 2);
  if (!Number.isFinite(asked)) return backoff;
  return Math.max(asked, answer?.status === 409 ? backoff : FIRST_PAUSE_MS);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (outcome: () => void) => (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
      outcome();
    };
    const aborted = end(() => {
      reject(signal?.reason as Error);
    });
    const timer = setTimeout(end(resolve), ms);
    if (signal?.aborted) aborted();
    else signal?.addEventListener('abort', aborted);
  });
}
