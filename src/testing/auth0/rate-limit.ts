export interface RateLimit {
  /** The number of calls that are allowed at once while the bucket is full. */
  readonly burst: number;
  /** The number of further calls per second that the bucket's filling allows. */
  readonly perSecond: number;
}

/** The token bucket that limits the calls of a tenant's Management API. */
export class TokenBucket {
  private tokens: number;
  private filledAt: number;

  /** @param now returns the current time, in milliseconds since 1970. */
  constructor(
    private readonly limit: RateLimit,
    private readonly now: () => number,
  ) {
    this.tokens = limit.burst;
    this.filledAt = now();
  }

  /**
   * Takes a token for a call, if one is available. The returned headers are those of Auth0's answers. Among others,
   * they tell when the bucket will be full again.
   */
  take(): { isAllowed: boolean; headers: Record<string, string> } {
    const { burst, perSecond } = this.limit;
    const now = this.now();
    this.tokens = Math.min(burst, this.tokens + ((now - this.filledAt) / 1000) * perSecond);
    this.filledAt = now;
    const isAllowed = this.tokens >= 1;
    if (isAllowed) this.tokens--;
    const fullAt = now / 1000 + (burst - this.tokens) / perSecond;
    return {
      isAllowed,
      headers: {
        // `date` is by the same clock as `x-ratelimit-reset` below, so that a client can compare the two.
        date: new Date(now).toUTCString(),
        'x-ratelimit-limit': String(burst),
        'x-ratelimit-remaining': String(Math.floor(this.tokens)),
        'x-ratelimit-reset': String(Math.ceil(fullAt)),
      },
    };
  }
}
