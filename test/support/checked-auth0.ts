import { type Auth0Exchange, type Auth0StandIn, type Auth0StandInOptions, startAuth0StandIn } from '../../src/testing/index.js';
import { readAuth0Description, type Violation } from './auth0-description.js';

export interface CheckedAuth0 {
  readonly standIn: Auth0StandIn;
  /** Violations of Auth0's API description so far. Empty if the description is absent. */
  readonly violations: readonly Violation[];
}

export async function startCheckedAuth0(options: Auth0StandInOptions = {}): Promise<CheckedAuth0> {
  const description = readAuth0Description();
  const found: Violation[] = [];
  const unchecked: Auth0Exchange[] = [];
  const onExchange = (exchange: Auth0Exchange) => {
    // Exchanges are checked only when `violations` is read, and not at once: compiling a schema takes so long that a
    // call to the stand-in could run out of time on a busy machine.
    if (description) unchecked.push(exchange);
    return options.onExchange?.(exchange);
  };
  return {
    standIn: await startAuth0StandIn({ ...options, onExchange }),
    get violations() {
      for (const exchange of unchecked.splice(0)) found.push(...(description?.violationsOf(exchange) ?? []));
      return found;
    },
  };
}

/** The violations for which the stand-in is to blame: those in its answers, and in requests that it didn't refuse. */
export const ownViolations = ({ violations }: CheckedAuth0): Violation[] =>
  violations.filter(({ side, status = 0 }) => side === 'answer' || status < 400);

export interface Called {
  readonly status: number;
  readonly headers: Headers;
  /** The body of the answer: parsed if it begins like a JSON object or array, otherwise as text. */
  readonly body: unknown;
}

/**
 * Calls the stand-in's Management API.
 *
 * @param operation the method, and the encoded path after `/api/v2`, separated by a blank.
 * @param token the access token for the call. Default: a new one with all scopes.
 */
export async function callManagementApi(standIn: Auth0StandIn, operation: string, body?: unknown, token?: string): Promise<Called> {
  const [method = '', path = ''] = operation.split(' ');
  const authorization = `Bearer ${token ?? (await standIn.issueManagementToken())}`;
  const init = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) };
  const headers = { authorization, 'content-type': 'application/json' };
  const response = await fetch(`${standIn.domain}/api/v2${path}`, { method, headers, ...init });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text };
}
