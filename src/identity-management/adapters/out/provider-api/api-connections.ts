import type { IncomingHttpHeaders } from 'node:http';
import { StringDecoder } from 'node:string_decoder';
import { Agent, type Dispatcher, request } from 'undici';
import { ServiceError } from '../../../../common/service-error.js';
import { assertAwaited } from '../../../application/ports/awaited.js';
import { ProviderError } from '../../../domain/errors.js';
import { onAbort } from './abort.js';
import { isUnsent, toConnectionFailure, UNSENT } from './api-failure.js';
import { textLines } from './text-lines.js';

export interface RawRequest {
  /** What is asked, in words that hold nothing of a client's: `GET /users`. */
  readonly label: string;
  readonly url: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Whether it does no harm when it is done twice. */
  readonly repeatable: boolean;
  /** The longest that the answer may take, to its last byte; a connection's beginning is a part of it. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

const CONNECT_TIMEOUT_MS = 3_000;
/** At once; further requests wait for one of these, within their own time. */
const MOST_CONNECTIONS = 128;
const MOST_BYTES = 64 * 1024 * 1024;

/** Connections to an identity provider's API, kept for the next request. Redirects aren't followed. */
export class ApiConnections {
  private readonly agent = new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS },
    connections: MOST_CONNECTIONS,
    maxResponseSize: MOST_BYTES,
  });
  /** A file is read line by line, however long it is. */
  private readonly fileAgent = new Agent({ connect: { timeout: CONNECT_TIMEOUT_MS } });

  /** @param provider as messages name it. */
  constructor(private readonly provider: string) {}

  /**
   * Asks once, and once more when the connection breaks and the request is repeatable.
   *
   * @throws ProviderUnavailable when there is no connection within 3 seconds, or no whole answer in the request's time; as
   * `OutcomeUnknown` where it may have been done.
   */
  async send(raw: RawRequest): Promise<RawAnswer> {
    assertAwaited(raw.signal);
    const exchange = new Exchange(this.agent, raw);
    // By hand: `AbortSignal.any` and `timeout` cost three times as much, and the garbage collector more.
    const timer = setTimeout(() => { exchange.giveUp(); }, raw.timeoutMs);
    const stopListening = onAbort(raw.signal, () => { exchange.giveUp(); });
    try {
      return await exchange.once().catch((error: unknown) => {
        if (!raw.repeatable || exchange.isOver) throw error;
        // A kept connection may have been ended by the other side just now.
        return exchange.once().catch((repeated: unknown) => {
          throw isUnsent(repeated) ? error : repeated;
        });
      });
    } catch (error) {
      throw toConnectionFailure(`${this.provider} does not answer ${raw.label}.`, error);
    } finally {
      clearTimeout(timer);
      stopListening();
    }
  }

  /**
   * Lines of a file, gzipped or not, read as fast as they are taken.
   *
   * @param url may be a secret, and stands in no message.
   * @throws ProviderUnavailable when it doesn't come to its end; ProviderError for another status than 200.
   */
  async *lines(url: string, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
    const label = `${this.provider}'s file`;
    try {
      const { statusCode, body } = await request(url, { dispatcher: this.fileAgent, signal });
      if (statusCode !== 200) {
        await body.dump();
        throw new ProviderError(`${label} comes with ${statusCode}.`);
      }
      yield* textLines(body);
    } catch (error) {
      throw error instanceof ServiceError ? error : toConnectionFailure(`${label} does not come.`, error);
    }
  }

  /** Ends all connections, and what is under way on them. */
  async close(): Promise<void> {
    await Promise.all([this.agent.destroy(), this.fileAgent.destroy()]);
  }
}

/** A request that is sent, perhaps again, until it is given up: by `dispatch`, as `request` goes on while it waits for a connection. */
class Exchange {
  isOver = false;
  private abort: (() => void) | undefined;

  constructor(
    private readonly agent: Agent,
    private readonly raw: RawRequest,
  ) {}

  giveUp(): void {
    this.isOver = true;
    this.abort?.();
  }

  once(): Promise<RawAnswer> {
    const { url, method, headers, body } = this.raw;
    const { origin, pathname, search } = new URL(url);
    return new Promise<RawAnswer>((resolve, reject) => {
      // It may still wait for a connection, and is never sent then.
      this.abort = () => { reject(Object.assign(this.end(), { code: UNSENT })); };
      const decoder = new StringDecoder('utf8');
      const answer = { status: 0, headers: {} as IncomingHttpHeaders, text: '' };
      const handler: Dispatcher.DispatchHandler = {
        onRequestStart: (controller) => {
          // To abort it would end the connection, which others wait for.
          if (this.isOver) throw this.end();
          this.abort = () => { controller.abort(this.end()); };
        },
        onResponseStart: (_controller, status, responseHeaders) => {
          answer.status = status;
          answer.headers = responseHeaders;
        },
        onResponseData: (_controller, chunk) => {
          answer.text += decoder.write(chunk);
        },
        onResponseEnd: () => {
          resolve(answer);
        },
        onResponseError: (_controller, error) => {
          reject(error);
        },
      };
      this.agent.dispatch({ origin, path: pathname + search, method, headers, ...(body !== undefined && { body }) }, handler);
    });
  }

  private end(): Error {
    return new Error('Its time is over.', { cause: this.raw.signal.reason });
  }
}
