import type { Answer } from './transport.js';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;

/** The statuses after which the same request may succeed later: 409 while the first request of its key is in progress. */
const PASSING = new Set([409, 429, 502, 503, 504]);

const isPassing = ({ status, header }: Answer): boolean => PASSING.has(status) && (status !== 409 || header('Retry-After') !== undefined);

export interface Repeats {
  /** How often the request is sent at most. */
  readonly attempts: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Sends a request again while the connection breaks or the service asks for patience. Resolves to the last answer.
 * Rejects with the last error of `send`, or with the reason of the signal.
 */
export async function repeated<Result extends Answer>(send: () => Promise<Result>, { attempts, signal }: Repeats): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    const outcome = await send().then(
      (answer) => ({ answer }),
      (error: unknown) => ({ error }),
    );
    const isLast = attempt >= attempts;
    if ('answer' in outcome && (isLast || !isPassing(outcome.answer))) return outcome.answer;
    // `fetch` rejects with a TypeError if the connection fails.
    if ('error' in outcome && (isLast || signal?.aborted || !(outcome.error instanceof TypeError))) throw outcome.error;
    const asked = 'answer' in outcome ? Number(outcome.answer.header('Retry-After')) * 1000 : Number.NaN;
    const backoff = Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
    await pause(Number.isFinite(asked) ? Math.max(asked, FIRST_PAUSE_MS) : backoff, signal);
  }
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
