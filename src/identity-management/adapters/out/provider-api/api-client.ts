import { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import { ApiConnections, type RawAnswer, type RawRequest } from './api-connections.js';
import { AnswerUnreadable, PermissionDenied, TokenRefused, toNothingDone, toStatusFailure } from './api-failure.js';
import type { CallPace } from './call-pace.js';
import { type IssuedToken, ServiceToken } from './service-token.js';
import { type SharedReader, SharedReads } from './shared-reads.js';

export interface ApiClientOptions {
  /** As messages name it: `Keycloak`. */
  readonly provider: string;
  /** In front of each path. */
  readonly url: string;
  /** How an access token is asked for (RFC 6749): a grant's fields, sent as a form. */
  readonly token: { readonly url: string; readonly grant: Readonly<Record<string, string>> };
  /** For a provider that limits how many calls it takes. */
  readonly pace?: CallPace;
}

export interface ApiRequest {
  readonly method: RawRequest['method'];
  /** Behind the API's address, encoded. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Whether it does no harm when it is done twice, as with each GET. */
  readonly repeatable?: boolean;
  readonly signal: AbortSignal;
}

/** An answer that an operation reads: 2xx, 400, 404, 409 and the like. */
export interface ApiAnswer {
  readonly status: number;
  /** Parsed; undefined without a body. */
  readonly body: unknown;
  /** Empty without that header. */
  readonly location: string;
  /** Says who answers what, and holds nothing of a client's: `Keycloak answers GET /users`. */
  readonly label: string;
}

const REQUEST_TIMEOUT_MS = 10_000;
const TOKEN_TIMEOUT_MS = 5_000;

const TOKEN = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() });
const TOKEN_REFUSAL = z.object({ error: z.string(), error_description: z.string().default('') });
const NO_REASON = { error: '', error_description: '' };
/** As RFC 6749 has them, and where the issuer isn't there, or shut. */
const TOKEN_REFUSED: readonly number[] = [400, 401, 403, 404];

/** A provider's HTTP API of JSON, used with one access token for all. Any number of calls may be under way. */
export class ApiClient {
  readonly token = new ServiceToken(() => this.issueToken().catch(toNothingDone));
  private readonly connections: ApiConnections;
  private readonly sharedReads = new SharedReads();
  /** The latest answers to `getAgain`, by path. */
  private readonly latest = new Map<string, { readonly text: string; readonly data: unknown }>();

  constructor(private readonly options: ApiClientOptions) {
    this.connections = new ApiConnections(options.provider);
  }

  /**
   * Asks once; once more with a new token when this one is refused or lacks a scope and another may do better, or when the
   * connection breaks and the request is repeatable.
   *
   * @throws ProviderUnavailable when there is no connection, no answer in 10 seconds, 429 or 5xx; as `OutcomeUnknown` where
   * it may have been done. ProviderError when we are refused; as `AnswerUnreadable` when what comes is no JSON.
   */
  async call(request: ApiRequest): Promise<ApiAnswer> {
    const label = labelOf(request);
    return this.parse(label, await this.exchange(label, request));
  }

  /**
   * Asks for what must be there.
   *
   * @throws as `call`; ProviderError also for another status than 200, `AnswerUnreadable` for another form.
   */
  async get<Schema extends z.ZodType>(path: string, schema: Schema, signal: AbortSignal): Promise<z.infer<Schema>> {
    return read(await this.call({ method: 'GET', path, signal }), schema);
  }

  /**
   * GET, with one call for all who wait for their turn to read the same path. The answer is never older than the request.
   *
   * @throws as `call`.
   */
  async readShared(path: string, signal: AbortSignal): Promise<ApiAnswer> {
    const request: ApiRequest = { method: 'GET', path, signal };
    const label = labelOf(request);
    return this.parse(label, await this.sharedReads.join(path, (reader) => this.exchange(label, request, reader)));
  }

  /** As `get`, for a long answer that seldom changes: when its text is that of the answer before, it isn't parsed again. */
  async getAgain<Schema extends z.ZodType>(path: string, schema: Schema, signal: AbortSignal): Promise<z.infer<Schema>> {
    const request: ApiRequest = { method: 'GET', path, signal };
    const label = labelOf(request);
    const answer = await this.exchange(label, request);
    const before = this.latest.get(path);
    if (answer.status === 200 && answer.text === before?.text) return before.data as z.infer<Schema>;
    const data = read(this.parse(label, answer), schema);
    this.latest.set(path, { text: answer.text, data });
    return data;
  }

  /** Lines of a file that the API has told the address of: it gets no token. */
  lines(url: string, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
    return this.connections.lines(url, signal);
  }

  /** Ends what is under way, and all connections. */
  async close(): Promise<void> {
    await this.connections.close();
  }

  private async exchange(
    label: string,
    { method, path, body, repeatable = method === 'GET', signal }: ApiRequest,
    reader?: SharedReader,
  ): Promise<RawAnswer> {
    const request = { label, url: this.options.url + path, method, repeatable, timeoutMs: REQUEST_TIMEOUT_MS, signal };
    const ask = (token: string): Promise<RawAnswer> => {
      const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
      if (body === undefined) return this.connections.send({ ...request, headers });
      return this.connections.send({ ...request, headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) });
    };
    const askForAll = (token: string): Promise<RawAnswer> => reader?.send(() => ask(token)) ?? ask(token);
    const shared = reader && (() => reader.sharedAnswer(({ status }) => !saysNothingOfToken(status)));
    const askInTurn = (token: string): Promise<RawAnswer> => this.options.pace?.run(signal, () => askForAll(token), shared) ?? askForAll(token);
    let token = await this.token.get(signal);
    let answer = await askInTurn(token);
    if ((answer.status === 401 && this.token.discard(token, 'refused')) || (lacksScope(answer) && this.token.discard(token, 'outdated'))) {
      token = await this.token.get(signal);
      answer = await askInTurn(token);
    }
    if (!saysNothingOfToken(answer.status)) this.token.accepted(token);
    return answer;
  }

  private async issueToken(): Promise<IssuedToken> {
    const { url, grant } = this.options.token;
    const label = 'the request for a token';
    const answer = await this.connections.send({
      label,
      url,
      method: 'POST',
      headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams(grant).toString(),
      repeatable: true,
      timeoutMs: TOKEN_TIMEOUT_MS,
      signal: new AbortController().signal,
    });
    if (TOKEN_REFUSED.includes(answer.status)) throw this.toTokenRefused(label, answer);
    const issued = read(this.parse(label, answer), TOKEN);
    return { value: issued.access_token, expiresInSeconds: issued.expires_in };
  }

  private toTokenRefused(request: string, { status, text }: RawAnswer): TokenRefused {
    const label = `${this.options.provider} answers ${request}`;
    const { error, error_description: description } = TOKEN_REFUSAL.catch(NO_REASON).parse(parseJson(label, status, text));
    const reason = [error, description].filter(Boolean).join(': ');
    return new TokenRefused(`${label} with ${status}${reason && ` (${reason})`}.`, error, description);
  }

  private parse(request: string, answer: RawAnswer): ApiAnswer {
    const { status, headers, text } = answer;
    const label = `${this.options.provider} answers ${request}`;
    if (lacksScope(answer)) throw new PermissionDenied(`${label} with 403: the token lacks a scope (${SCOPES.exec(text)?.[1] ?? 'which, it does not say'}).`);
    const failure = toStatusFailure(`${label} with ${status}.`, status, headers['retry-after']);
    if (failure) throw failure;
    const { location } = headers;
    return { status, body: parseJson(label, status, text), location: typeof location === 'string' ? location : '', label };
  }
}

/** @throws ProviderError when the status is another one, as `AnswerUnreadable` when it is one of success, or the body has another form. */
export function read<Schema extends z.ZodType>(answer: ApiAnswer, schema: Schema, status = 200): z.infer<Schema> {
  if (answer.status !== status) throw unexpected(answer);
  const { success, data, error } = schema.safeParse(answer.body);
  if (!success) throw new AnswerUnreadable(`${answer.label} in another form.`, { cause: error });
  return data;
}

/** What is asked, without what a client may have said: `POST /users/…/role-mappings/…`. */
const labelOf = ({ method, path }: ApiRequest): string => {
  const [segments = ''] = path.split('?', 1);
  return `${method} ${segments.split('/').map((segment, index) => (index > 0 && index % 2 === 0 ? '…' : segment)).join('/')}`;
};

/** An answer that the operation doesn't know. */
export function unexpected({ label, status }: ApiAnswer): ProviderError {
  const Failure = status < 300 ? AnswerUnreadable : ProviderError;
  return new Failure(`${label} with ${status}.`);
}

/** As Auth0 lists them: `Insufficient scope, expected any of: create:users`. */
const SCOPES = /expected[a-z ]*: ([a-z_:, ]+)/;

/** Whether the token may not have been looked at, or was refused. */
const saysNothingOfToken = (status: number): boolean => status >= 500 || [401, 403, 408, 429].includes(status);

/** By the code of RFC 6750: the token was issued when we were permitted less, or we lack it still. */
const lacksScope = ({ status, text }: RawAnswer): boolean => status === 403 && text.includes('"insufficient_scope"');

function parseJson(label: string, status: number, text: string): unknown {
  if (text === '' && status < 300) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    const Failure = status < 300 ? AnswerUnreadable : ProviderError;
    throw new Failure(`${label} with ${status} and no JSON.`, { cause: error });
  }
}
