export interface RateLimit {
  /** How many calls a full bucket holds. */
  readonly burst: number;
  /** How many come back in a second. */
  readonly perSecond: number;
}

/** A tenant's token bucket. */
export class TokenBucket {
  private tokens: number;
  private filledAt: number;

  /** @param now milliseconds since 1970. */
  constructor(
    private readonly limit: RateLimit,
    private readonly now: () => number,
  ) {
    this.tokens = limit.burst;
    this.filledAt = now();
  }

  /** Takes a token where there is one. The headers tell, as Auth0's do, when the bucket will be full again. */
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
        // The reset is by the same clock.
        date: new Date(now).toUTCString(),
        'x-ratelimit-limit': String(burst),
        'x-ratelimit-remaining': String(Math.floor(this.tokens)),
        'x-ratelimit-reset': String(Math.ceil(fullAt)),
      },
    };
  }
}
