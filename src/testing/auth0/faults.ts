/** A fault that a test makes the stand-in for Auth0 (an HTTP server) inject into a request. */
export type Auth0Fault =
  /**
   * Sends the given status, headers and body without processing the request. An object is sent as JSON; a text or bytes
   * are sent unchanged.
   */
  | { readonly kind: 'answer'; readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  /** Processes the request as usual, but only after a delay in milliseconds. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** Resets the connection without processing the request. */
  | { readonly kind: 'reset' }
  /** Neither processes nor answers the request. The connection stays open until `Auth0StandIn.recover` resets it. */
  | { readonly kind: 'silence' }
  /** Processes the request, but resets the connection instead of sending the answer. */
  | { readonly kind: 'lost-answer' }
  /** Processes the request, but doesn't answer it. The connection stays open until `Auth0StandIn.recover` resets it. */
  | { readonly kind: 'silence-after' }
  /** Processes the request, but closes the connection in the middle of the answer's body. */
  | { readonly kind: 'cut-body' }
  /** Processes the request, but sends only the first half of the answer's JSON, as if that were the whole body. */
  | { readonly kind: 'truncated-json' };

export interface FaultOptions {
  /**
   * How many matching requests the fault affects (default: 1). `Infinity`: all, until `Auth0StandIn.recover` is called.
   */
  readonly times?: number;
  /** How many matching requests the fault spares before it affects the following ones (default: 0). */
  readonly skip?: number;
}

interface PlannedFault {
  readonly pattern: RegExp;
  readonly fault: Auth0Fault;
  skip: number;
  times: number;
}

/** The faults that a test has planned for coming requests, oldest plan first. */
export class Faults {
  private planned: PlannedFault[] = [];

  add(request: string | RegExp, fault: Auth0Fault, { times = 1, skip = 0 }: FaultOptions): void {
    this.planned.push({ pattern: requestPattern(request), fault, times, skip });
  }

  clear(): void {
    this.planned = [];
  }

  /**
   * Returns the fault that affects a request, and counts the request for the fault; undefined if there is none. A fault
   * skips the first `skip` matching requests and affects the next `times`. Of several faults that would affect the
   * request, only the one planned first does, and the request isn't counted for those planned after it.
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
 * Converts the method and path of a request, such as `GET /api/v2/users/{id}`, to a regular expression. `{id}` matches
 * any one segment of the path. A regular expression is returned unchanged.
 */
export function requestPattern(request: string | RegExp): RegExp {
  if (typeof request !== 'string') return request;
  const escaped = request.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&').replaceAll(/\{\w+\}/g, '[^/]+');
  return new RegExp(`^${escaped}$`);
}

/** Bodies for faults of the kind `answer`: one as Auth0 sends it, and one (`HTML`) as a proxy in front of Auth0 may. */
export const TOO_MANY_REQUESTS = {
  statusCode: 429,
  error: 'Too Many Requests',
  message: 'Global limit has been reached',
  errorCode: 'too_many_requests',
};
export const HTML = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>';
