import type { IncomingHttpHeaders } from 'node:http';
import { StringDecoder } from 'node:string_decoder';
import { Agent, type Dispatcher, request } from 'undici';
import { ServiceError } from '../../../../common/service-error.js';
import { MIB } from '../../../../common/sizes.js';
import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { ProviderError } from '../../../domain/errors.js';
import { onAbort } from './abort.js';
import { isUnsent, toConnectionFailure, UNSENT } from './api-failure.js';
import { textLines } from './text-lines.js';
import { CONNECT_TIMEOUT_MS } from './time-budget.js';

export interface RawRequest {
  readonly label: string;
  readonly url: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly repeatable: boolean;
  /** The time limit, including the wait for a connection, both attempts if `repeatable`, and the whole answer. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

const MAX_CONNECTIONS = 128;
const MAX_BYTES = 64 * MIB;

/** Connections to an identity provider's API, kept alive for later requests. Redirects aren't followed. */
export class ApiConnections {
  private readonly agent = new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS },
    connections: MAX_CONNECTIONS,
    maxResponseSize: MAX_BYTES,
  });
  /** The agent for files, without a limit on the size, because files are read line by line. */
  private readonly fileAgent = new Agent({ connect: { timeout: CONNECT_TIMEOUT_MS } });

  constructor(private readonly provider: string) {}

  /**
   * Sends a request. Repeats a repeatable one once if it gets no complete answer and there is time left.
   *
   * @throws ProviderUnavailable when no connection is made (within 3 seconds for each attempt), no complete answer of
   * at most 64 MiB arrives in time, or the signal aborts. The error is an `OutcomeUnknown` if the request may have been
   * carried out.
   */
  async send(raw: RawRequest): Promise<RawAnswer> {
    if (raw.signal.aborted) throw noLongerAwaited(raw.signal);
    const pending = new PendingRequest(this.agent, raw);
    // `AbortSignal.any` and `AbortSignal.timeout` would cost three times as much as this timer and listener.
    const timer = setTimeout(() => { pending.giveUp(); }, raw.timeoutMs);
    const stopListening = onAbort(raw.signal, () => { pending.giveUp(); });
    try {
      return await pending.once().catch((error: unknown) => {
        if (!raw.repeatable || pending.isOver) throw error;
        // The request is repeated, because the server may just have closed an idle connection.
        return pending.once().catch((repeated: unknown) => {
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
   * Downloads a file, gzipped or not, and yields its lines, no faster than they are consumed. Has no time limit.
   *
   * @param url may be a secret, so no message contains it.
   * @throws ProviderUnavailable when the file doesn't arrive completely, or has a line that is too long, or the signal
   * aborts; ProviderError for a status other than 200.
   */
  async *lines(url: string, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
    try {
      const { statusCode, body } = await request(url, { dispatcher: this.fileAgent, signal });
      if (statusCode !== 200) {
        await body.dump();
        throw new ProviderError(`${this.provider} answered the download of a file with ${statusCode}.`);
      }
      yield* textLines(body);
    } catch (error) {
      throw error instanceof ServiceError ? error : toConnectionFailure(`${this.provider}'s file could not be downloaded.`, error);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.agent.destroy(), this.fileAgent.destroy()]);
  }
}

/** Uses undici's `dispatch`, because undici's `request` can't be ended while it waits for a connection. */
class PendingRequest {
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
      // While the request waits for a connection, `giveUp` rejects the promise. The request is then never sent.
      this.abort = () => { reject(Object.assign(this.end(), { code: UNSENT })); };
      const decoder = new StringDecoder('utf8');
      const answer = { status: 0, headers: {} as IncomingHttpHeaders, text: '' };
      const handler: Dispatcher.DispatchHandler = {
        onRequestStart: (controller) => {
          // The request was given up while it waited. Throwing ends only this request; `controller.abort` would also
          // close the connection, which other requests wait for.
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
    return new Error('The request was given up.', { cause: this.raw.signal.reason });
  }
}
