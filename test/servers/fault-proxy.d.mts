export interface ProxiedRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
}

export interface ProxiedAnswer {
  /** By names in lower case. */
  readonly headers: Record<string, string | string[] | undefined>;
  readonly body: Buffer;
}

export interface AnswerOptions {
  /** Which request it is about; any without. */
  to?: (request: ProxiedRequest) => boolean;
}

export interface CutOptions extends AnswerOptions {
  /** How much of the answer's body comes through before the cut. Without it, or 0, nothing of the answer does. */
  afterBytes?: number;
  /** How many of its answers are cut; 1 unless set, `Infinity` until the next mode. */
  times?: number;
}

/** Stands between a client and an HTTP server, without TLS, and is in one mode at a time; `pass` at first. Also a Host that is signed goes through unchanged. */
export interface FaultProxy {
  /** `http://host:port`, the same for as long as it lives. */
  readonly endpoint: string;
  /** Passes on what comes, and lets go of the answers that are held. */
  pass(): Promise<void>;
  /** Each answer comes later by so many milliseconds, or those to the requests that it is about. */
  delay(ms: number, options?: AnswerOptions): void;
  /** Ends connections, and refuses new ones. */
  refuse(): Promise<void>;
  /** Ends connections, and each new one at its first request, before the server sees it. */
  reset(): void;
  /** Passes requests on, and holds the answers until the next mode, or those to the requests that it is about. */
  hold(options?: AnswerOptions): void;
  /** Holds requests until the next mode, or those that it is about, and passes them on then, though nobody may wait for the answers. */
  postpone(options?: AnswerOptions): void;
  /** Answers each request with 503 `SlowDown`, as S3 does. */
  throttle(): void;
  /** Answers each request itself, or those that it is about; HTML is told by its `<`, anything else is said to be JSON. */
  respond(status: number, body: string, options?: AnswerOptions): void;
  /** Passes on what comes, but for this header (in lower case) of the answers, or of those that it is about. */
  mute(header: string, options?: AnswerOptions): void;
  /** Passes on what comes, with the answers changed, or those to the requests that it is about. */
  alter(change: (answer: ProxiedAnswer) => Partial<ProxiedAnswer>, options?: AnswerOptions): void;
  /** Passes each request on twice, and the second answer back, or those that it is about. */
  repeat(options?: AnswerOptions): void;
  /**
   * Passes the next request on, and ends its connection when the server has answered: within a mode, and once unless told.
   * Called twice, it cuts two.
   *
   * @returns resolves when that has happened, for the first time
   */
  cutAnswer(options?: CutOptions): Promise<void>;
  /**
   * Answers the next request itself, with a status and an error of such a code in XML, or with that JSON: once, within a mode.
   *
   * @returns resolves when that has happened
   */
  answer(status: number, code: string, options?: AnswerOptions): Promise<void>;
  /** What came so far, the oldest first. */
  readonly requests: readonly ProxiedRequest[];
  /** How many connections clients have to it. */
  connections(): Promise<number>;
  close(): Promise<void>;
}

export interface FaultProxyOptions {
  /** How long it keeps a connection without a request; a minute unless told. */
  keepAliveMs?: number;
}

export function startFaultProxy(target: string, options?: FaultProxyOptions): Promise<FaultProxy>;
