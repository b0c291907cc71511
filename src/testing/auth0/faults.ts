/** A fault that the stand-in for Auth0 injects into a request. */
export type Auth0Fault =
  /**
   * Sends the given status, headers and body without processing the request. The body is sent as JSON, unless it is a
   * text.
   */
  | { readonly kind: 'answer'; readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  /** Processes the request as usual, but only after a delay in milliseconds. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** Resets the connection without processing the request. */
  | { readonly kind: 'reset' }
  /** Neither processes nor answers the request. The connection stays open until the stand-in's `recover` resets it. */
  | { readonly kind: 'silence' }
  /** Processes the request, but resets the connection instead of sending the answer. */
  | { readonly kind: 'lost-answer' }
  /**
   * Processes the request, but doesn't send the answer. The connection stays open until the stand-in's `recover` resets
   * it.
   */
  | { readonly kind: 'silence-after' }
  /** Processes the request, but closes the connection in the middle of the answer's body. */
  | { readonly kind: 'cut-body' }
  /**
   * Processes the request, but sends only the first half of the JSON of the answer, with the Content-Length of that
   * half.
   */
  | { readonly kind: 'truncated-json' };

export interface FaultOptions {
  /**
   * How many requests the fault affects. Default: 1. With `Infinity`, it affects all requests until the stand-in's
   * `recover`.
   */
  readonly times?: number;
  /** How many matching requests pass unaffected before the fault begins. Default: 0. */
  readonly skip?: number;
}

interface PlannedFault {
  readonly pattern: RegExp;
  readonly fault: Auth0Fault;
  skip: number;
  times: number;
}

/** The faults that a test has planned for coming requests, in the order in which it planned them. */
export class Faults {
  private planned: PlannedFault[] = [];

  add(request: string | RegExp, fault: Auth0Fault, { times = 1, skip = 0 }: FaultOptions): void {
    this.planned.push({ pattern: requestPattern(request), fault, times, skip });
  }

  clear(): void {
    this.planned = [];
  }

  /**
   * The fault for a request, of which one use is then spent; undefined if the request is unaffected. If several planned
   * faults match, the one planned first applies that has begun (see `skip`) and has uses left (see `times`).
   */
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

/**
 * The regular expression for the method and path of a request, such as `GET /api/v2/users/{id}`, where `{id}` stands
 * for one segment of the path. A regular expression is returned unchanged.
 */
export function requestPattern(request: string | RegExp): RegExp {
  if (typeof request !== 'string') return request;
  const escaped = request.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&').replaceAll(/\{\w+\}/g, '[^/]+');
  return new RegExp(`^${escaped}$`);
}

/**
 * Bodies for faults of the kind `answer`, as Auth0 (`TOO_MANY_REQUESTS`) or a proxy in front of it (`HTML`) can send
 * them.
 */
export const TOO_MANY_REQUESTS = {
  statusCode: 429,
  error: 'Too Many Requests',
  message: 'Global limit has been reached',
  errorCode: 'too_many_requests',
};
export const HTML = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>';
