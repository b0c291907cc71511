import { z } from 'zod';
import type { ApiClient } from '../provider-api/api-client.js';
import type { TokenRefused } from '../provider-api/api-failure.js';
import type { Operation } from '../provider-api/operation.js';
import { claimsOf, tokenOrProblem } from '../provider-requirements/service-token-check.js';
import { type Findings, findingsOf } from '../provider-requirements/requirement.js';
import { apiPart } from './api-requirement.js';
import type { ApiScopes } from './api-scopes.js';
import { SERVICE_SCOPES } from './tenant.js';
import { TenantAdmin } from './tenant-admin.js';

export interface TenantCheckOptions {
  readonly clientId: string;
  readonly audience: string;
  /** Whether the check may request a new token, at most once a minute, when the current one doesn't have a scope. */
  readonly mayRenewToken: boolean;
}

const CLAIMS = z.object({ scope: z.string().default('') });

/**
 * Checks what the service needs in an Auth0 tenant, as far as its token allows: the token's scopes, and the API. Takes
 * at most one `ApiClient.call`, plus requests for tokens.
 *
 * @throws as `ApiClient.get`; ProviderError when the token has an unexpected form.
 */
export async function checkTenant(api: ApiClient, scopes: ApiScopes, options: TenantCheckOptions, operation: Operation): Promise<Findings> {
  const { clientId, audience, mayRenewToken } = options;
  const token = await tokenOrProblem(() => api.token.get(operation.signal), (refused) => refusal(refused, clientId));
  if ('problem' in token) return { problems: [token.problem], warnings: [] };
  const held = new Set(claimsOf(token.value, CLAIMS).scope.split(' '));
  const missing = SERVICE_SCOPES.filter((scope) => !held.has(scope));
  if (missing.length > 0 && mayRenewToken && api.token.discard(token.value, 'outdated')) {
    return await checkTenant(api, scopes, { ...options, mayRenewToken: false }, operation);
  }
  const repairs = held.has('read:resource_servers') ? await apiPart(new TenantAdmin(api, () => operation), scopes, audience).changes() : [];
  const { problems, warnings } = findingsOf(repairs);
  const missingScopes = missing.map((scope) => `The application "${clientId}" lacks the scope ${scope} of the Management API.`);
  return { problems: [...missingScopes, ...problems], warnings };
}

/** Explains why Auth0 refuses a token; undefined if the error text isn't one that Auth0 is known to send. */
function refusal({ error, description }: TokenRefused, clientId: string): string | undefined {
  if (error === 'unauthorized_client') return `The application "${clientId}" may not use client credentials.`;
  if (/not authorized to access/i.test(description)) return `The application "${clientId}" has no client grant for the Management API.`;
  if (/service not enabled/i.test(description)) return "AUTH0_DOMAIN is not the tenant's own domain.";
  if (error === 'access_denied') return `There is no application "${clientId}" (AUTH0_CLIENT_ID), or AUTH0_CLIENT_SECRET is not its secret.`;
  return undefined;
}
