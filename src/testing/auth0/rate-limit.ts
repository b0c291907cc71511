export interface RateLimit {
  /** The capacity of the token bucket: how many calls are allowed at once while it is full. */
  readonly burst: number;
  readonly perSecond: number;
}

/** The token bucket that limits the calls to a simulated tenant's Management API. */
export class TokenBucket {
  private tokens: number;
  private filledAt: number;

  /** @param now the current time, in milliseconds since 1970. */
  constructor(
    private readonly limit: RateLimit,
    private readonly now: () => number,
  ) {
    this.tokens = limit.burst;
    this.filledAt = now();
  }

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
        // The headers `date` and `x-ratelimit-reset` are by one clock, so a client can compute their difference.
        date: new Date(now).toUTCString(),
        'x-ratelimit-limit': String(burst),
        'x-ratelimit-remaining': String(Math.floor(this.tokens)),
        'x-ratelimit-reset': String(Math.ceil(fullAt)),
      },
    };
  }
}
