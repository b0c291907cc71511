/** A fault that a request meets. */
export type Auth0Fault =
  /** Sends this answer without processing the request. JSON unless `body` is a text. */
  | { readonly kind: 'answer'; readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  /** Processes the request as usual, after a delay in milliseconds. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** Resets the connection without processing the request. */
  | { readonly kind: 'reset' }
  /** Neither processes the request nor answers it, until `recover`. */
  | { readonly kind: 'silence' }
  /** Processes the request, but resets the connection instead of answering. */
  | { readonly kind: 'lost-answer' }
  /** Processes the request, but sends no answer until `recover`, which resets the connection. */
  | { readonly kind: 'silence-after' }
  /** Processes the request, but closes the connection in the middle of the answer's body. */
  | { readonly kind: 'cut-body' }
  /** Processes the request, but sends only half of its JSON, with a Content-Length that fits. */
  | { readonly kind: 'truncated-json' };

export interface FaultOptions {
  /** How many requests it affects. Default: 1. With `Infinity`, all until `recover`. */
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

  /** The fault for this request. If several match, the one planned first. */
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

/** The pattern for a text such as `GET /api/v2/users/{id}`, where `{id}` stands for one segment of the path. */
export function requestPattern(request: string | RegExp): RegExp {
  if (typeof request !== 'string') return request;
  const escaped = request.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&').replaceAll(/\{\w+\}/g, '[^/]+');
  return new RegExp(`^${escaped}$`);
}

/** Bodies for `answer` that a service may receive. */
export const TOO_MANY_REQUESTS = {
  statusCode: 429,
  error: 'Too Many Requests',
  message: 'Global limit has been reached',
  errorCode: 'too_many_requests',
};
export const HTML = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>';
