import { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import { ApiConnections, type RawAnswer, type RawRequest } from './api-connections.js';
import { AnswerUnreadable, PermissionDenied, TokenRefused, toNothingDone, toStatusFailure } from './api-failure.js';
import type { CallPace } from './call-pace.js';
import type { Operation } from './operation.js';
import { type IssuedToken, ServiceToken } from './service-token.js';
import { type SharedReader, SharedReads } from './shared-reads.js';
import { REQUEST_TIMEOUT_MS, TOKEN_TIMEOUT_MS } from './time-budget.js';

export interface ApiClientOptions {
  readonly provider: string;
  readonly url: string;
  /** The token endpoint, and the fields of the grant (RFC 6749), which are sent as a form. */
  readonly token: { readonly url: string; readonly grant: Readonly<Record<string, string>> };
  readonly pace?: CallPace;
}

export interface ApiRequest {
  readonly method: RawRequest['method'];
  /** The path below the API's base URL, with its query. Must be percent-encoded already. */
  readonly path: string;
  readonly body?: unknown;
  /** Whether sending the request twice is harmless. Default: only for GET. */
  readonly repeatable?: boolean;
  readonly operation: Operation;
}

export interface ProviderAnswer {
  readonly status: number;
  /** The parsed JSON of the answer; undefined if the answer has no body. */
  readonly body: unknown;
  /** The `Location` header; empty if absent. */
  readonly location: string;
  /** The beginning of a message about the answer, without data from clients: `Keycloak answers GET /users`. */
  readonly label: string;
}

const TOKEN = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() });
const TOKEN_REFUSAL = z.object({ error: z.string(), error_description: z.string().default('') });
const NO_REASON = { error: '', error_description: '' };
/**
 * The statuses that refuse a token: of RFC 6749 (400, 401); of Keycloak for a disabled (403) or missing (404) realm; of
 * Auth0 for a grant type or audience that the client may not use (403).
 */
const TOKEN_REFUSED: readonly number[] = [400, 401, 403, 404];

/** A provider's JSON API over HTTP. All calls share one access token. Any number of calls may be made at once. */
export class ApiClient {
  readonly token = new ServiceToken(() => this.issueToken().catch(toNothingDone));
  private readonly connections: ApiConnections;
  private readonly sharedReads = new SharedReads();
  private readonly latest = new Map<string, { readonly text: string; readonly data: unknown }>();

  constructor(private readonly options: ApiClientOptions) {
    this.connections = new ApiConnections(options.provider);
  }

  /**
   * Sends a request. May send it again: with a new token, if the token was refused or doesn't have the scope; if the
   * request is `repeatable` and got no complete answer; and with a rate limiter (`pace`), after a 429.
   *
   * @throws ProviderUnavailable when the signal aborts, or the call would wait too long for the rate limiter.
   * @throws ProviderUnavailable when there is no connection, no answer within 10 seconds (5 for a token), or an answer
   * with 408, 429 or 5xx. Either is an `OutcomeUnknown` if the request may have been carried out.
   * @throws ProviderError for a redirect, and when the provider refuses the service or a token.
   * @throws ProviderError when the body isn't JSON (an empty one may report success); an `AnswerUnreadable` if the
   * status reports success.
   */
  async call(request: ApiRequest): Promise<ProviderAnswer> {
    const label = labelOf(request);
    return this.parse(label, await this.exchange(label, request));
  }

  /**
   * Reads a resource that must exist.
   *
   * @throws as `call` and as `read`.
   */
  async get<Schema extends z.ZodType>(path: string, schema: Schema, operation: Operation): Promise<z.infer<Schema>> {
    return read(await this.call({ method: 'GET', path, operation }), schema);
  }

  /** Like `get`, for a resource that may be missing: undefined for 404. */
  async find<Schema extends z.ZodType>(path: string, schema: Schema, operation: Operation): Promise<z.infer<Schema> | undefined> {
    const answer = await this.call({ method: 'GET', path, operation });
    return answer.status === 404 ? undefined : read(answer, schema);
  }

  /**
   * Removes a resource, or does nothing if it is missing.
   *
   * @throws as `call`; ProviderError also for a status other than 200, 204 and 404.
   */
  async remove(path: string, operation: Operation): Promise<void> {
    const answer = await this.call({ method: 'DELETE', path, repeatable: true, operation });
    if (![200, 204, 404].includes(answer.status)) throw unexpected(answer);
  }

  /**
   * Sends a GET request. Callers that wait in the rate limiter's queue to read the same path usually share one call. A
   * caller never gets an answer to a call that was sent before it asked.
   *
   * @throws as `call`.
   */
  async readShared(path: string, operation: Operation): Promise<ProviderAnswer> {
    const request: ApiRequest = { method: 'GET', path, operation };
    const label = labelOf(request);
    return this.parse(label, await this.sharedReads.join(path, (reader) => this.exchange(label, request, reader)));
  }

  /**
   * Like `get`, for a long answer that seldom changes: the same text isn't parsed again. A path must always be read
   * with the same schema.
   */
  async getAgain<Schema extends z.ZodType>(path: string, schema: Schema, operation: Operation): Promise<z.infer<Schema>> {
    const request: ApiRequest = { method: 'GET', path, operation };
    const label = labelOf(request);
    const answer = await this.exchange(label, request);
    const before = this.latest.get(path);
    if (answer.status === 200 && answer.text === before?.text) return before.data as z.infer<Schema>;
    const data = read(this.parse(label, answer), schema);
    this.latest.set(path, { text: answer.text, data });
    return data;
  }

  /**
   * Reads the lines of a file at a URL that the API returned, without the access token.
   *
   * @throws as `ApiConnections.lines`.
   */
  lines(url: string, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
    return this.connections.lines(url, signal);
  }

  /** Aborts all requests in flight and closes all connections. */
  async close(): Promise<void> {
    await this.connections.close();
  }

  private async exchange(
    label: string,
    { method, path, body, repeatable = method === 'GET', operation }: ApiRequest,
    reader?: SharedReader,
  ): Promise<RawAnswer> {
    const { signal } = operation;
    const request = { label, url: this.options.url + path, method, repeatable, timeoutMs: REQUEST_TIMEOUT_MS, signal };
    const ask = (token: string): Promise<RawAnswer> => {
      const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
      if (body === undefined) return this.connections.send({ ...request, headers });
      return this.connections.send({ ...request, headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) });
    };
    const askForAll = (token: string): Promise<RawAnswer> => reader?.send(() => ask(token)) ?? ask(token);
    const shared = reader && (() => reader.sharedAnswer(({ status }) => !saysNothingOfToken(status)));
    const askInTurn = (token: string): Promise<RawAnswer> => this.options.pace?.run(operation, () => askForAll(token), shared) ?? askForAll(token);
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
    const { error, error_description: description } = TOKEN_REFUSAL.catch(NO_REASON).parse(parseAnswer(label, status, text));
    const reason = [error, description].filter(Boolean).join(': ');
    return new TokenRefused(`${label} with ${status}${reason && ` (${reason})`}.`, error, description);
  }

  private parse(request: string, answer: RawAnswer): ProviderAnswer {
    const { status, headers, text } = answer;
    const label = `${this.options.provider} answers ${request}`;
    if (lacksScope(answer)) throw new PermissionDenied(`${label} with 403: the token lacks a scope (${SCOPES.exec(text)?.[1] ?? 'Auth0 does not say which'}).`);
    const failure = toStatusFailure(`${label} with ${status}.`, status, headers['retry-after']);
    if (failure) throw failure;
    const { location } = headers;
    return { status, body: parseAnswer(label, status, text), location: typeof location === 'string' ? location : '', label };
  }
}

/**
 * Checks an answer and returns its body.
 *
 * @throws AnswerUnreadable when the body doesn't match the schema, or for an unexpected status below 300; ProviderError
 * for any other unexpected status.
 */
export function read<Schema extends z.ZodType>(answer: ProviderAnswer, schema: Schema, status = 200): z.infer<Schema> {
  if (answer.status !== status) throw unexpected(answer);
  const { success, data, error } = schema.safeParse(answer.body);
  if (!success) throw new AnswerUnreadable(`${answer.label} in another form.`, { cause: error });
  return data;
}

/** Names a request in messages. Every second segment of the path becomes `…`, because it can come from a client. */
const labelOf = ({ method, path }: ApiRequest): string => {
  const [segments = ''] = path.split('?', 1);
  return `${method} ${segments.split('/').map((segment, index) => (index > 0 && index % 2 === 0 ? '…' : segment)).join('/')}`;
};

/** The error for an answer with a status that the calling operation doesn't expect. */
export function unexpected({ label, status }: ProviderAnswer): ProviderError {
  const Failure = status < 300 ? AnswerUnreadable : ProviderError;
  return new Failure(`${label} with ${status}.`);
}

/** Finds the scopes in Auth0's message `Insufficient scope, expected any of: create:users`. */
const SCOPES = /expected[a-z ]*: ([a-z_:, ]+)/;

const saysNothingOfToken = (status: number): boolean => status >= 500 || [401, 403, 408, 429].includes(status);

/** Finds `insufficient_scope` (RFC 6750). A new token helps only if the scope was granted after this one was issued. */
const lacksScope = ({ status, text }: RawAnswer): boolean => status === 403 && text.includes('"insufficient_scope"');

function parseAnswer(label: string, status: number, text: string): unknown {
  if (text === '' && status < 300) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    const Failure = status < 300 ? AnswerUnreadable : ProviderError;
    throw new Failure(`${label} with ${status} and no JSON.`, { cause: error });
  }
}
