import { subscribe } from 'node:diagnostics_channel';

interface Exchange {
  readonly request: { readonly origin: string; readonly method: string; readonly path: string };
  readonly response: { readonly statusCode: number; readonly headers: readonly Buffer[] };
}

const LIMITS = /^(x-ratelimit-|retry-after$)/;

/** Counts the answers of one origin by status, as reported by the HTTP client. */
export class Calls {
  readonly counts = new Map<string, number>();
  /** The rate limits in the answers, by the name of the header and the status of the answer. */
  readonly limits = new Map<string, string>();

  constructor(origin: string) {
    subscribe('undici:request:headers', (message) => {
      const { request, response } = message as Exchange;
      if (request.origin !== origin) return;
      const status = String(response.statusCode);
      this.counts.set(status, (this.counts.get(status) ?? 0) + 1);
      const headers = response.headers.map(String);
      for (let index = 0; index + 1 < headers.length; index += 2) {
        const name = (headers[index] ?? '').toLowerCase();
        if (LIMITS.test(name)) this.limits.set(`${name} with ${status}`, headers[index + 1] ?? '');
      }
    });
  }

  get total(): number {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0);
  }
}
