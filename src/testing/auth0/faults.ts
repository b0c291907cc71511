/** A fault that the stand-in for Auth0 injects into a request. */
export type Auth0Fault =
  /** Answers without processing the request. An object is sent as JSON; a text or bytes are sent unchanged. */
  | { readonly kind: 'answer'; readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  | { readonly kind: 'delay'; readonly ms: number }
  /** Resets the connection without processing the request. */
  | { readonly kind: 'reset' }
  /** Neither processes nor answers the request. The connection stays open until `Auth0StandIn.recover` resets it. */
  | { readonly kind: 'silence' }
  /** Processes the request, but resets the connection instead of answering. */
  | { readonly kind: 'lost-answer' }
  /** Processes the request, but doesn't answer it. The connection stays open until `Auth0StandIn.recover` resets it. */
  | { readonly kind: 'silence-after' }
  /** Processes the request, and closes the connection in the middle of the answer's body. */
  | { readonly kind: 'cut-body' }
  /** Processes the request, and sends the first half of the answer's JSON as if that were the whole body. */
  | { readonly kind: 'truncated-json' };

export interface FaultOptions {
  /** How many of the matching requests the fault affects. Default: 1. */
  readonly times?: number;
  /** How many matching requests pass before the fault affects one. Default: 0. */
  readonly skip?: number;
}

interface PlannedFault {
  readonly pattern: RegExp;
  readonly fault: Auth0Fault;
  skip: number;
  times: number;
}

/** The faults that a test has planned for coming requests to the stand-in for Auth0. */
export class Faults {
  private planned: PlannedFault[] = [];

  add(request: string | RegExp, fault: Auth0Fault, { times = 1, skip = 0 }: FaultOptions): void {
    this.planned.push({ pattern: requestPattern(request), fault, times, skip });
  }

  clear(): void {
    this.planned = [];
  }

  /**
   * Returns the planned fault that affects a request, if any. A fault that still skips requests, or is used up, affects
   * none. Of several others, only the one planned first applies, and later ones don't count the request.
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
 * Converts a method and path, such as `GET /api/v2/users/{id}`, to a regular expression in which `{id}` matches any one
 * segment of a path. Returns a regular expression unchanged.
 */
export function requestPattern(request: string | RegExp): RegExp {
  if (typeof request !== 'string') return request;
  const escaped = request.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&').replaceAll(/\{\w+\}/g, '[^/]+');
  return new RegExp(`^${escaped}$`);
}

export const TOO_MANY_REQUESTS = {
  statusCode: 429,
  error: 'Too Many Requests',
  message: 'Global limit has been reached',
  errorCode: 'too_many_requests',
};
export const HTML = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>';
