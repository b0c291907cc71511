export interface ProxiedRequest {
  readonly method: string;
  /** The path and query of the request. */
  readonly url: string;
}

export interface ProxiedAnswer {
  /** The headers of the answer, with names in lower case. */
  readonly headers: Record<string, string | string[] | undefined>;
  readonly body: Buffer;
}

export interface AnswerOptions {
  /** Whether the fault affects a request. Default: all requests are affected. */
  to?: (request: ProxiedRequest) => boolean;
}

export interface TimesOptions extends AnswerOptions {
  /** How many requests or answers the fault affects. Default: 1. `Infinity`: all until the next mode. */
  times?: number;
}

export interface CutOptions extends TimesOptions {
  /** How many bytes of the answer's body pass before the cut. Default: 0, where not even the head passes. */
  afterBytes?: number;
}

/** An HTTP proxy without TLS. Has one mode at a time, at first `pass`. Never changes Host, which may be signed. */
export interface FaultProxy {
  /** The address of the proxy, `http://host:port`, which never changes. */
  readonly endpoint: string;
  /** Passes everything on, and releases held answers. */
  pass(): Promise<void>;
  /** Delays each affected answer by this many milliseconds. */
  delay(ms: number, options?: AnswerOptions): void;
  /**
   * Ends the connections of clients, and refuses new ones. Resolves when all connections have ended. Only `pass` makes
   * the proxy accept connections again, no other mode does.
   */
  refuse(): Promise<void>;
  /** Ends the connections of clients, and each new connection at its first request, before the server sees it. */
  reset(): void;
  /** Passes requests on, and holds the affected answers until the next mode. */
  hold(options?: AnswerOptions): void;
  /**
   * Holds the affected requests until the next mode, and then passes them on, even if the client no longer waits for
   * the answers.
   */
  postpone(options?: AnswerOptions): void;
  /** Answers each request with 503 `SlowDown`, as S3 does. */
  throttle(): void;
  /** Answers the affected requests itself. A body that starts with `<` is sent as HTML, any other as JSON. */
  respond(status: number, body: string, options?: AnswerOptions): void;
  /** Passes everything on except one header of the affected answers, whose name is given in lower case. */
  mute(header: string, options?: AnswerOptions): void;
  /** Passes everything on, but changes the affected answers. */
  alter(change: (answer: ProxiedAnswer) => Partial<ProxiedAnswer>, options?: AnswerOptions): void;
  /** Passes each affected request on twice, and returns the second answer. */
  repeat(options?: AnswerOptions): void;
  /**
   * Passes the next affected request on, and ends the client's connection when the server has answered. Adds to the
   * current mode, and is cancelled by the next one. Applies to one answer by default. Two calls cut two answers.
   *
   * @returns resolves when the first answer is cut
   */
  cutAnswer(options?: CutOptions): Promise<void>;
  /**
   * Answers the next affected request itself, without the server. Adds to the current mode, and is cancelled by the
   * next one.
   *
   * @param code JSON to send as the body, or the code of an XML error.
   * @returns resolves when the first request is answered
   */
  answer(status: number, code: string, options?: TimesOptions): Promise<void>;
  /** The requests so far, oldest first. */
  readonly requests: readonly ProxiedRequest[];
  /** The number of open connections of clients. */
  connections(): Promise<number>;
  close(): Promise<void>;
}

export interface FaultProxyOptions {
  /** How long an idle connection of a client is kept open. Default: one minute. */
  keepAliveMs?: number;
}

/** Returns a change for `alter` that makes the answer's `Date` this many milliseconds later. */
export function otherTime(ms: number): (answer: ProxiedAnswer) => Partial<ProxiedAnswer>;

export function startFaultProxy(target: string, options?: FaultProxyOptions): Promise<FaultProxy>;
