import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import { type AccessTokens, TokenError } from './access-tokens.js';
import { clientsRoutes } from './clients.routes.js';
import { connectionsRoutes } from './connections.routes.js';
import { ExportJobs } from './export-jobs.js';
import { invalidBody, ManagementError } from './management-error.js';
import { type RateLimit, TokenBucket } from './rate-limit.js';
import { resourceServersRoutes } from './resource-servers.routes.js';
import { rolesRoutes } from './roles.routes.js';
import type { Route } from './route.js';
import type { Tenant } from './tenant.js';
import { ticketsRoutes } from './tickets.routes.js';
import { usersRoutes } from './users.routes.js';

export interface Auth0Request {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  readonly isMalformed: boolean;
}

export interface Auth0Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The body of the answer. An object is sent as JSON; a text or bytes are sent unchanged. */
  readonly body?: unknown;
}

const PREFIX = '/api/v2';
const PASSWORD_CHANGE = z.object({ client_id: z.string(), email: z.string(), connection: z.string() });

/** The HTTP endpoints of a simulated Auth0 tenant: Management API, tokens, keys, password mails and export files. */
export class Auth0Api {
  private readonly routes: { method: string; pattern: RegExp; route: Route }[];
  private readonly jobs: ExportJobs;
  private bucket: { limit: RateLimit; tokens: TokenBucket } | undefined;

  constructor(
    private readonly tenant: Tenant,
    private readonly tokens: AccessTokens,
  ) {
    this.jobs = new ExportJobs(tenant);
    const routes = [
      ...usersRoutes(tenant),
      ...rolesRoutes(tenant),
      ...resourceServersRoutes(tenant),
      ...this.jobs.routes(),
      ...clientsRoutes(tenant),
      ...connectionsRoutes(tenant),
      ...ticketsRoutes(tenant),
    ];
    this.routes = routes.map((route) => {
      const [method = '', path = ''] = route.operation.split(' ');
      return { method, pattern: new RegExp(`^${PREFIX}${path.replace('{id}', '([^/]+)')}$`), route };
    });
  }

  get managementScopes(): string[] {
    return [...new Set(this.routes.flatMap(({ route }) => route.scopes))].sort();
  }

  async answer(request: Auth0Request): Promise<Auth0Answer> {
    if (request.path.startsWith(`${PREFIX}/`)) return this.manage(request);
    switch (`${request.method} ${request.path}`) {
      case 'POST /oauth/token':
        return this.issue(request);
      case 'GET /.well-known/jwks.json':
        return { status: 200, headers: {}, body: await this.tokens.keySet() };
      case 'GET /.well-known/openid-configuration':
        return { status: 200, headers: {}, body: this.discovery() };
      case 'POST /dbconnections/change_password':
        return this.mailPasswordChange(request);
      default:
        return request.path.startsWith('/exports/') ? this.download(request) : { status: 404, headers: {}, body: 'Not found.' };
    }
  }

  private manage(request: Auth0Request): Auth0Answer {
    const { isAllowed, headers } = this.takeToken();
    try {
      if (!isAllowed) throw new ManagementError(429, 'Global limit has been reached', 'too_many_requests');
      return { headers, ...this.call(request) };
    } catch (error) {
      if (!(error instanceof ManagementError)) throw error;
      return { status: error.status, headers, body: error.body };
    }
  }

  private call({ method, path, query, headers, body, isMalformed }: Auth0Request): ReturnType<Route['answer']> {
    const found = this.routes.find((each) => each.method === method && each.pattern.test(path));
    if (!found) throw new ManagementError(404, 'Not Found');
    const { route, pattern } = found;
    const scopes = this.tokens.scopesOf(headers.authorization);
    const held = route.scopes.filter((scope) => scopes.has(scope)).length;
    if (held < (route.anyScope ? 1 : route.scopes.length)) {
      throw new ManagementError(403, `Insufficient scope, expected any of: ${route.scopes.join(',')}`, 'insufficient_scope');
    }
    if (isMalformed) throw invalidBody('Invalid JSON');
    return route.answer({ id: decode(pattern.exec(path)?.[1] ?? ''), query, body, scopes });
  }

  private takeToken(): ReturnType<TokenBucket['take']> {
    const { settings, now } = this.tenant;
    const limit = settings.rateLimit;
    if (!limit) return { isAllowed: true, headers: {} };
    if (this.bucket?.limit !== limit) this.bucket = { limit, tokens: new TokenBucket(limit, now) };
    return this.bucket.tokens.take();
  }

  private async issue({ body }: Auth0Request): Promise<Auth0Answer> {
    const headers = { 'cache-control': 'no-store' };
    try {
      return { status: 200, headers, body: await this.tokens.grant(Object(body) as Record<string, unknown>) };
    } catch (error) {
      if (!(error instanceof TokenError)) throw error;
      return { status: error.status, headers, body: { error: error.error, error_description: error.message } };
    }
  }

  private discovery(): object {
    const { domain } = this.tenant;
    return {
      issuer: this.tokens.issuer,
      authorization_endpoint: `${domain}/authorize`,
      token_endpoint: `${domain}/oauth/token`,
      jwks_uri: `${domain}/.well-known/jwks.json`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    };
  }

  /**
   * Answers a request for a password mail, in the same way whether or not the user exists. `client_id` is required, as
   * in Auth0's API description; older pages of Auth0's documentation don't require it.
   */
  private mailPasswordChange({ body }: Auth0Request): Auth0Answer {
    const { success, data } = PASSWORD_CHANGE.safeParse(body);
    const connection = this.tenant.connections.find(({ name }) => name === data?.connection);
    if (!success || !connection?.enabledClients.has(data.client_id)) return { status: 400, headers: {}, body: { error: 'invalid_request' } };
    const users = this.tenant.users.withEmail(data.email.toLowerCase()).filter(({ connection }) => connection === data.connection);
    for (const user of users) this.tenant.send('change-password', user);
    return { status: 200, headers: {}, body: "We've just sent you an email to reset your password." };
  }

  /**
   * Answers the download of an export file. A request with an `Authorization` header is refused, as by the object store
   * in which Auth0 keeps such files: the signature in the URL is the only permitted authentication.
   */
  private download({ path, query, headers }: Auth0Request): Auth0Answer {
    if (headers.authorization !== undefined) return { status: 400, headers: {}, body: '<Error><Code>InvalidArgument</Code></Error>' };
    const file = this.jobs.file(`${path}?${query.toString()}`);
    if (!file) return { status: 403, headers: {}, body: '<Error><Code>AccessDenied</Code></Error>' };
    return { status: 200, headers: { 'content-type': 'application/gzip' }, body: file };
  }
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new ManagementError(400, `Path validation error: 'The path is malformed'.`, 'invalid_uri');
  }
}
