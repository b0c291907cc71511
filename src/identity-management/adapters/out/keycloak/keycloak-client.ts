import { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import { assertAwaited, toConnectionFailure, toStatusFailure } from './keycloak-failure.js';
import { type IssuedToken, ServiceToken } from './service-token.js';

export interface KeycloakConnection {
  /** Where Keycloak is, without a trailing slash. */
  readonly url: string;
  readonly realm: string;
  /** The confidential client whose service account administers the realm. */
  readonly clientId: string;
  readonly clientSecret: string;
}

/** The address of a realm, which is its issuer, too, unless Keycloak was told another name. */
export const realmUrl = ({ url, realm }: Pick<KeycloakConnection, 'url' | 'realm'>): string => `${url}/realms/${encodeURIComponent(realm)}`;

export interface KeycloakRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Behind `/admin/realms/<realm>`, encoded. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Whether it does no harm when it is done twice, as with each GET. */
  readonly repeatable?: boolean;
  readonly signal: AbortSignal;
}

/** An answer of the Admin API that an operation reads: 2xx, 400, 404, 409 and the like. */
export interface KeycloakAnswer {
  readonly status: number;
  /** Parsed; undefined without a body. */
  readonly body: unknown;
  /** The last part of `Location`, decoded by nobody; empty without it. */
  readonly newId: string;
  /** Says what was asked, and holds nothing of a client's. */
  readonly request: string;
}

interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The longest that an answer may take, to its last byte; a connection's beginning is a part of it. */
const REQUEST_TIMEOUT_MS = 10_000;
const TOKEN_TIMEOUT_MS = 5_000;

const TOKEN = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() });

/** The Admin API of one realm, as a service account. Connections are kept; any number of calls may be under way. */
export class KeycloakClient {
  private readonly token = new ServiceToken(() => this.issueToken());
  private readonly adminUrl: string;

  constructor(private readonly connection: KeycloakConnection) {
    this.adminUrl = `${connection.url}/admin/realms/${encodeURIComponent(connection.realm)}`;
  }

  /**
   * Asks once; once more with a new token when this one is refused, or when the connection breaks and the request is
   * repeatable.
   *
   * @throws ProviderUnavailable when there is no connection, no answer in 10 seconds, 429 or 5xx; as `OutcomeUnknown` where
   * it may have been done. ProviderError when we are refused, or what comes is no JSON.
   */
  async call({ method, path, body, repeatable = method === 'GET', signal }: KeycloakRequest): Promise<KeycloakAnswer> {
    const request = `${method} ${/^\/[a-z-]*/.exec(path)?.[0] ?? ''}`;
    const ask = async (token: string): Promise<RawAnswer> => {
      const headers: Record<string, string> = { authorization: `Bearer ${token}`, accept: 'application/json' };
      if (body !== undefined) headers['content-type'] = 'application/json';
      const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
      return exchange(request, this.adminUrl + path, init, { signal, timeoutMs: REQUEST_TIMEOUT_MS, repeatable });
    };
    const token = await this.token.get(signal);
    let answer = await ask(token);
    if (answer.status === 401) {
      this.token.discard(token);
      answer = await ask(await this.token.get(signal));
    }
    const { status, headers, text } = answer;
    const failure = toStatusFailure(request, status, headers.get('retry-after'));
    if (failure) throw failure;
    return { status, body: parseJson(request, status, text), newId: headers.get('location')?.split('/').at(-1) ?? '', request };
  }

  /**
   * Asks for what must be there.
   *
   * @throws as `call`; ProviderError also for another status than 200, or another form.
   */
  async get<Schema extends z.ZodType>(path: string, schema: Schema, signal: AbortSignal): Promise<z.infer<Schema>> {
    return read(await this.call({ method: 'GET', path, signal }), schema);
  }

  private async issueToken(): Promise<IssuedToken> {
    const { clientId, clientSecret } = this.connection;
    const body = new URLSearchParams({ grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret });
    const url = `${realmUrl(this.connection)}/protocol/openid-connect/token`;
    const signal = new AbortController().signal;
    const request = 'the request for a token';
    const init = { method: 'POST', body, headers: { accept: 'application/json' } };
    const answer = await exchange(request, url, init, { signal, timeoutMs: TOKEN_TIMEOUT_MS, repeatable: true });
    const { status, headers, text } = answer;
    const failure = toStatusFailure(request, status, headers.get('retry-after'));
    if (failure) throw failure;
    const issued = read({ status, body: parseJson(request, status, text), newId: '', request }, TOKEN);
    return { value: issued.access_token, expiresInSeconds: issued.expires_in };
  }
}

/** @throws ProviderError when the status isn't 200, or the body has another form. */
export function read<Schema extends z.ZodType>(answer: KeycloakAnswer, schema: Schema): z.infer<Schema> {
  if (answer.status !== 200) throw unexpected(answer);
  const { success, data, error } = schema.safeParse(answer.body);
  if (!success) throw new ProviderError(`Keycloak answers ${answer.request} in another form.`, { cause: error });
  return data;
}

/** An answer that the operation doesn't know. */
export const unexpected = ({ request, status }: KeycloakAnswer): ProviderError =>
  new ProviderError(`Keycloak answers ${request} with ${status}.`);

async function exchange(
  request: string,
  url: string,
  init: RequestInit,
  { signal, timeoutMs, repeatable }: { signal: AbortSignal; timeoutMs: number; repeatable: boolean },
): Promise<RawAnswer> {
  assertAwaited(signal);
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const once = async (): Promise<RawAnswer> => {
    const response = await fetch(url, { ...init, redirect: 'manual', signal: limit });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  try {
    return await once().catch((error: unknown) => {
      // A kept connection may have been ended by the other side just now.
      if (repeatable && !limit.aborted) return once();
      throw error;
    });
  } catch (error) {
    throw toConnectionFailure(request, error);
  }
}

function parseJson(request: string, status: number, text: string): unknown {
  if (text === '' && status < 300) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ProviderError(`Keycloak answers ${request} with ${status} and no JSON.`, { cause: error });
  }
}
