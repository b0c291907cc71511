/** What goes wrong with a request. */
export type Auth0Fault =
  /** This answer, and nothing is done; JSON unless `body` is a text. */
  | { readonly kind: 'answer'; readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  /** All as usual, so many milliseconds late. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** The connection is reset, and nothing is done. */
  | { readonly kind: 'reset' }
  /** Nothing is done, and nothing comes, until `recover`. */
  | { readonly kind: 'silence' }
  /** It is done, and the connection is reset in place of the answer. */
  | { readonly kind: 'lost-answer' }
  /** It is done, and nothing comes, until `recover`. */
  | { readonly kind: 'silence-after' }
  /** It is done; the connection ends in the middle of the answer's body. */
  | { readonly kind: 'cut-body' }
  /** It is done; the answer is whole by its length, and half of its JSON. */
  | { readonly kind: 'truncated-json' };

export interface FaultOptions {
  /** How many requests it hits; 1 unless set, `Infinity` until `recover`. */
  readonly times?: number;
  /** How many matching requests pass before it begins. */
  readonly skip?: number;
}

interface PlannedFault {
  readonly pattern: RegExp;
  readonly fault: Auth0Fault;
  skip: number;
  times: number;
}

/** Faults that are still to happen. */
export class Faults {
  private planned: PlannedFault[] = [];

  add(request: string | RegExp, fault: Auth0Fault, { times = 1, skip = 0 }: FaultOptions): void {
    this.planned.push({ pattern: requestPattern(request), fault, times, skip });
  }

  clear(): void {
    this.planned = [];
  }

  /** The fault of this request, the one planned first where there are several. */
  next(request: string): Auth0Fault | undefined {
    for (const planned of this.planned) {
      if (!planned.pattern.test(request)) continue;
      if (planned.skip > 0) {
        planned.skip--;
        continue;
      }
      if (planned.times <= 0) continue;
      planned.times--;
      return planned.fault;
    }
    return undefined;
  }
}

/** As in `GET /api/v2/users/{id}`, where `{id}` stands for one segment of the path. */
export function requestPattern(request: string | RegExp): RegExp {
  if (typeof request !== 'string') return request;
  const escaped = request.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&').replaceAll(/\{\w+\}/g, '[^/]+');
  return new RegExp(`^${escaped}$`);
}

/** Bodies for `answer` that a service may meet. */
export const TOO_MANY_REQUESTS = {
  statusCode: 429,
  error: 'Too Many Requests',
  message: 'Global limit has been reached',
  errorCode: 'too_many_requests',
};
export const HTML = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>';
