/** A fault that the stand-in for Auth0 injects into a request. */
export type Auth0Fault =
  /** Without processing the request. An object is sent as JSON; a text or bytes are sent unchanged. */
  | { readonly kind: 'answer'; readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  | { readonly kind: 'delay'; readonly ms: number }
  /** Without processing the request. */
  | { readonly kind: 'reset' }
  /** Neither processes nor answers the request, until `Auth0StandIn.recover` resets the connection. */
  | { readonly kind: 'silence' }
  /** Processes the request, but resets the connection instead of answering. */
  | { readonly kind: 'lost-answer' }
  /** Processes the request, but doesn't answer it, until `Auth0StandIn.recover` resets the connection. */
  | { readonly kind: 'silence-after' }
  /** Closes the connection in the middle of the answer's body. */
  | { readonly kind: 'cut-body' }
  /** Sends the first half of the answer's JSON, as if that were the whole body. */
  | { readonly kind: 'truncated-json' };

export interface FaultOptions {
  /** How many matching requests the fault affects. Default: 1. */
  readonly times?: number;
  /** How many matching requests the fault spares before. Default: 0. */
  readonly skip?: number;
}

interface PlannedFault {
  readonly pattern: RegExp;
  readonly fault: Auth0Fault;
  skip: number;
  times: number;
}

/** The faults that a test has planned for coming requests. */
export class Faults {
  private planned: PlannedFault[] = [];

  add(request: string | RegExp, fault: Auth0Fault, { times = 1, skip = 0 }: FaultOptions): void {
    this.planned.push({ pattern: requestPattern(request), fault, times, skip });
  }

  clear(): void {
    this.planned = [];
  }

  /**
   * The fault that affects a request. Of several, only the one planned first does, and the request isn't counted for
   * those planned after it.
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
 * Converts a method and path, such as `GET /api/v2/users/{id}`, to a regular expression. `{id}` matches any one
 * segment.
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
