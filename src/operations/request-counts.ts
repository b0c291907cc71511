import type { ThrottlerStorage } from '@nestjs/throttler';

const SECOND_MS = 1_000;
interface Client {
  /** The client's requests in the window, by second, oldest first. Seconds without requests are left out. */
  readonly seconds: { readonly second: number; requests: number }[];
  requests: number;
  blockedUntil?: number;
}

type ThrottlerRecord = Awaited<ReturnType<ThrottlerStorage['increment']>>;

/**
 * Counts the requests of each client in a sliding window, with one number per second. A request is counted for the
 * window's length, or up to a second less.
 *
 * The storage of @nestjs/throttler isn't used, because at each request it copies the times of all counted requests of
 * the client.
 */
export class RequestCounts implements ThrottlerStorage {
  /** Clients with requests in this period; `earlier`: in the one before. A period is no shorter than the window. */
  private recent = new Map<string, Client>();
  private earlier = new Map<string, Client>();
  private periodEndsAt = 0;

  /**
   * @param ttl the length of the window in milliseconds, the same in all calls.
   * @param blockDuration how long a client that exceeds the limit is blocked, in milliseconds, at most `ttl`.
   * @returns `timeToBlockExpire` in seconds, rounded up; 0 if the client isn't blocked.
   */
  increment(key: string, ttl: number, limit: number, blockDuration: number): Promise<ThrottlerRecord> {
    // The time is in whole milliseconds, because sums of fractions aren't exact: the time left of a block for a minute
    // could come out as slightly more than a minute.
    const now = Math.floor(performance.now());
    if (now >= this.periodEndsAt) this.beginPeriod(now, ttl);
    const client = this.clientOf(key, now);
    if (client.blockedUntil === undefined) {
      count(client, now, ttl);
      if (client.requests > limit) client.blockedUntil = now + blockDuration;
    }
    const { requests: totalHits, blockedUntil } = client;
    const timeToBlockExpire = Math.ceil(((blockedUntil ?? now) - now) / SECOND_MS);
    return Promise.resolve({ totalHits, timeToExpire: Math.ceil(ttl / SECOND_MS), isBlocked: blockedUntil !== undefined, timeToBlockExpire });
  }

  private clientOf(key: string, now: number): Client {
    const known = this.recent.get(key) ?? this.earlier.get(key);
    const client = known && now < (known.blockedUntil ?? Infinity) ? known : { seconds: [], requests: 0 };
    this.recent.set(key, client);
    return client;
  }

  private beginPeriod(now: number, ttl: number): void {
    this.earlier = now < this.periodEndsAt + ttl ? this.recent : new Map<string, Client>();
    this.recent = new Map();
    this.periodEndsAt = now + ttl;
  }
}

function count(client: Client, now: number, ttl: number): void {
  const { seconds } = client;
  const second = Math.floor(now / SECOND_MS);
  for (let oldest; (oldest = seconds[0]) && oldest.second <= second - ttl / SECOND_MS; seconds.shift()) client.requests -= oldest.requests;
  let latest = seconds.at(-1);
  if (latest?.second !== second) seconds.push((latest = { second, requests: 0 }));
  latest.requests += 1;
  client.requests += 1;
}
