import { type Auth0Exchange, type Auth0StandIn, type Auth0StandInOptions, startAuth0StandIn } from '../../src/testing/index.js';
import { readAuth0Description, type Violation } from './auth0-description.js';

/** A stand-in, and how its exchanges violate Auth0's description. */
export interface CheckedAuth0 {
  readonly standIn: Auth0StandIn;
  /** The violations in the exchanges so far. Empty if the description is absent. */
  readonly violations: readonly Violation[];
}

export async function startCheckedAuth0(options: Auth0StandInOptions = {}): Promise<CheckedAuth0> {
  const description = readAuth0Description();
  const found: Violation[] = [];
  const unchecked: Auth0Exchange[] = [];
  const onExchange = (exchange: Auth0Exchange) => {
    // The exchange is checked only when `violations` is read, because compiling a schema takes so long that a call
    // could run out of time on a busy machine.
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

/**
 * The violations for which the stand-in is to blame: in requests that it accepted, and in its answers. Violations in
 * requests that it refused don't count.
 */
export const ownViolations = ({ violations }: CheckedAuth0): Violation[] =>
  violations.filter(({ side, status = 0 }) => side === 'answer' || status < 400);

export interface Called {
  readonly status: number;
  readonly headers: Headers;
  /** The body of the answer, parsed if it is JSON, otherwise as text. */
  readonly body: unknown;
}

/**
 * Calls the Management API.
 *
 * @param operation method and encoded path after `/api/v2`.
 * @param token the access token. Default: a new one with all scopes.
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
