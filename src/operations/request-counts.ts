import type { ThrottlerStorage } from '@nestjs/throttler';

const SECOND_MS = 1_000;
/**
 * How many clients one request forgets at most. Many, so that the memory of thousands of clients is freed soon, but not
 * all, so that no request takes long.
 */
const MOST_FORGOTTEN = 100;

/** What is known of one client. Times are those of `performance.now()`, in milliseconds. */
interface Client {
  /** How many requests were counted in each second of the window, oldest first. Seconds without requests are left out. */
  readonly seconds: { readonly second: number; requests: number }[];
  /** How many requests were counted in the window. */
  requests: number;
  /** Undefined if the client isn't blocked. */
  blockedUntil?: number;
  lastRequestAt: number;
}

type ThrottlerRecord = Awaited<ReturnType<ThrottlerStorage['increment']>>;

/**
 * Counts the requests of each client for the rate limit, in a sliding window. Counts by whole seconds, so that a request
 * takes no longer the more were counted. A request counts for the length of the window, less up to a second. A client
 * that exceeds the limit is blocked for a time, and then counted from 0.
 *
 * The storage of @nestjs/throttler isn't used, because it copies the times of all counted requests of a client with
 * each further one.
 */
export class RequestCounts implements ThrottlerStorage {
  /** By key. The clients whose latest request was longest ago come first. */
  private readonly clients = new Map<string, Client>();

  /**
   * Counts a request, unless its client is blocked.
   *
   * @param key identifies the client.
   * @param ttl the length of the window in milliseconds, the same in all calls.
   * @param limit how many requests are allowed in the window.
   * @param blockDuration how long a client that exceeds the limit is blocked, in milliseconds, at most `ttl`.
   * @returns `timeToBlockExpire` is in seconds, rounded up; 0 if the client isn't blocked.
   */
  increment(key: string, ttl: number, limit: number, blockDuration: number): Promise<ThrottlerRecord> {
    // Whole milliseconds, because sums of fractions aren't exact: the rest of a minute could be more than a minute.
    const now = Math.floor(performance.now());
    this.forgetUntil(now - ttl);
    const client = this.clientOf(key, now);
    if (client.blockedUntil === undefined) {
      count(client, now, ttl);
      if (client.requests > limit) client.blockedUntil = now + blockDuration;
    }
    const { requests: totalHits, blockedUntil } = client;
    const timeToBlockExpire = Math.ceil(((blockedUntil ?? now) - now) / SECOND_MS);
    return Promise.resolve({ totalHits, timeToExpire: Math.ceil(ttl / SECOND_MS), isBlocked: blockedUntil !== undefined, timeToBlockExpire });
  }

  /** The client with this key, which is the last in `clients` from now on. */
  private clientOf(key: string, now: number): Client {
    const known = this.clients.get(key);
    const client = known && now < (known.blockedUntil ?? Infinity) ? known : { seconds: [], requests: 0, lastRequestAt: now };
    client.lastRequestAt = now;
    this.clients.delete(key);
    this.clients.set(key, client);
    return client;
  }

  /** Forgets clients whose latest request was at this time or before. */
  private forgetUntil(time: number): void {
    let forgotten = 0;
    for (const [key, { lastRequestAt }] of this.clients) {
      if (lastRequestAt > time || ++forgotten > MOST_FORGOTTEN) return;
      this.clients.delete(key);
    }
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
