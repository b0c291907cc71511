import type { IncomingHttpHeaders } from 'node:http';
import { StringDecoder } from 'node:string_decoder';
import { Agent, type Dispatcher, request } from 'undici';
import { ServiceError } from '../../../../common/service-error.js';
import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { ProviderError } from '../../../domain/errors.js';
import { onAbort } from './abort.js';
import { isUnsent, toConnectionFailure, UNSENT } from './api-failure.js';
import { textLines } from './text-lines.js';
import { CONNECT_TIMEOUT_MS } from './time-budget.js';

export interface RawRequest {
  /** Describes the request in messages, without data from clients: `GET /users`. */
  readonly label: string;
  readonly url: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Whether sending the request twice is harmless. */
  readonly repeatable: boolean;
  /** How long the exchange may take, from opening the connection to the last byte of the answer, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/**
 * The most simultaneous connections to a provider. Further requests wait for one of these connections, within their own
 * time limit.
 */
const MOST_CONNECTIONS = 128;
const MOST_BYTES = 64 * 1024 * 1024;

/** Connections to an identity provider's API, kept alive for later requests. Redirects aren't followed. */
export class ApiConnections {
  private readonly agent = new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS },
    connections: MOST_CONNECTIONS,
    maxResponseSize: MOST_BYTES,
  });
  /** An agent for files, without a limit on the size of an answer, because a file is read line by line. */
  private readonly fileAgent = new Agent({ connect: { timeout: CONNECT_TIMEOUT_MS } });

  /** @param provider the provider's name in messages. */
  constructor(private readonly provider: string) {}

  /**
   * Sends a request once. If that fails within the request's time limit and before the signal aborts, and the request
   * is repeatable, sends it once more.
   *
   * @throws ProviderUnavailable when the last attempt gets no connection within 3 seconds, or there is no complete
   * answer of at most 64 MiB within the request's time limit, or when the signal aborts; as `OutcomeUnknown` if the
   * request may have been carried out.
   */
  async send(raw: RawRequest): Promise<RawAnswer> {
    if (raw.signal.aborted) throw noLongerAwaited(raw.signal);
    const exchange = new Exchange(this.agent, raw);
    // The request's time limit and its signal are watched with a plain timer and listener, because `AbortSignal.any`
    // and `AbortSignal.timeout` cost three times as much, plus garbage collection.
    const timer = setTimeout(() => { exchange.giveUp(); }, raw.timeoutMs);
    const stopListening = onAbort(raw.signal, () => { exchange.giveUp(); });
    try {
      return await exchange.once().catch((error: unknown) => {
        if (!raw.repeatable || exchange.isOver) throw error;
        // The request is sent again, because the server may just have closed a kept-alive connection.
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
   * Reads the lines of a file, gzipped or not, no faster than the lines are consumed.
   *
   * @param url may be a secret and doesn't appear in any message.
   * @throws ProviderUnavailable when the file doesn't arrive completely, or has a line that is too long; ProviderError
   * for a status other than 200.
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

  /** Closes all connections and aborts the requests on them. */
  async close(): Promise<void> {
    await Promise.all([this.agent.destroy(), this.fileAgent.destroy()]);
  }
}

/**
 * A request that can be ended at any time with `giveUp`. `once` sends the request, and may be called again after a
 * failure. Uses undici's `dispatch`, because its `request` can't be ended while it waits for a connection.
 */
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
      // If the request is given up while it waits for a connection, it is never sent.
      this.abort = () => { reject(Object.assign(this.end(), { code: UNSENT })); };
      const decoder = new StringDecoder('utf8');
      const answer = { status: 0, headers: {} as IncomingHttpHeaders, text: '' };
      const handler: Dispatcher.DispatchHandler = {
        onRequestStart: (controller) => {
          // A request that was given up earlier is ended by an exception when it gets a connection. Aborting it through
          // the controller would close the connection, which other requests wait for.
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
