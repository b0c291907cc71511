import { z } from 'zod';
import type { ApiClient } from '../provider-api/api-client.js';
import type { TokenRefused } from '../provider-api/api-failure.js';
import type { Operation } from '../provider-api/operation.js';
import { claimsOf, tokenOrProblem } from '../provider-requirements/service-token-check.js';
import { type Findings, findingsOf, type Repair, type Requirement } from '../provider-requirements/requirement.js';
import type { KeycloakConnection } from './admin-api.js';
import { realmUrl } from './realm-url.js';
import { REALM_MANAGEMENT, SERVICE_RIGHTS } from './realm.js';
import { RealmAdmin } from './realm-admin.js';
import { mailProblems } from './realm-invitations.js';
import { apiClient, defaultClientScope, permissions, userProfile } from './realm-requirements.js';

export interface RealmCheckOptions extends KeycloakConnection {
  readonly audience: string;
  /** The expected `iss` of tokens (OIDC_ISSUER). Default: the realm's URL. */
  readonly issuer?: string | undefined;
  readonly invitationMail?: object | undefined;
  readonly swaggerUiClientId?: string | undefined;
}

const CLAIMS = z.object({
  iss: z.string(),
  resource_access: z.object({ [REALM_MANAGEMENT]: z.object({ roles: z.array(z.string()) }).optional() }).default({}),
});

/**
 * Checks what the service needs in a realm, as far as the service's rights allow, with a new token. If OIDC_ISSUER is
 * set, a token with another issuer is only a warning, because Keycloak may have one issuer per address.
 *
 * @throws as `ApiClient.get`; ProviderError when the token has an unexpected form.
 */
export async function checkRealm(api: ApiClient, options: RealmCheckOptions, operation: Operation): Promise<Findings> {
  const token = await tokenOrProblem(() => api.token.getNew(operation.signal), (refused) => refusal(refused, options));
  if ('problem' in token) return { problems: [token.problem], warnings: [] };
  const { iss, resource_access: access } = claimsOf(token.value, CLAIMS);

  const issuer = options.issuer ?? realmUrl(options);
  const otherIssuer = iss === issuer ? [] : [`Keycloak issues tokens as "${iss}", but the service expects "${issuer}" (OIDC_ISSUER).`];
  const rights = new Set(access[REALM_MANAGEMENT]?.roles);
  const missing = SERVICE_RIGHTS.filter((right) => !rights.has(right));
  const admin = new RealmAdmin(api, () => operation);
  const repairs = await necessaryRepairs(admin, options.audience, (right) => rights.has(right));

  const { problems, warnings } = findingsOf(repairs);
  const missingRights = missing.map((right) => `The service account of the client "${options.clientId}" lacks the right ${right}.`);
  const isBelievable = options.issuer !== undefined;
  return {
    problems: [...(isBelievable ? [] : otherIssuer), ...missingRights, ...problems],
    warnings: [
      ...(isBelievable ? otherIssuer : []),
      ...warnings,
      ...(rights.has('manage-clients') ? await swaggerUiProblems(admin, options) : []),
      ...(rights.has('manage-realm') && options.invitationMail ? await mailProblems(api, operation) : []),
    ],
  };
}

async function swaggerUiProblems(admin: RealmAdmin, { swaggerUiClientId: clientId }: RealmCheckOptions): Promise<readonly string[]> {
  const isAbsent = clientId !== undefined && !(await admin.client(clientId));
  return isAbsent ? [`There is no client "${clientId}" (SWAGGER_UI_CLIENT_ID).`] : [];
}

type ServiceRight = (typeof SERVICE_RIGHTS)[number];

async function necessaryRepairs(admin: RealmAdmin, audience: string, may: (right: ServiceRight) => boolean): Promise<readonly Repair[]> {
  const ofClients = async (): Promise<readonly Repair[]> => {
    const absence = await apiClient(admin, audience).changes();
    const rest = absence.length > 0 ? [defaultClientScope] : [permissions, defaultClientScope];
    return [...absence, ...(await repairsOf(rest.map((part) => part(admin, audience))))];
  };
  const repairs = await Promise.all([
    may('manage-clients') ? ofClients() : [],
    may('manage-users') || may('manage-realm') ? userProfile(admin).changes() : [],
  ]);
  return repairs.flat();
}

const repairsOf = async (parts: readonly Requirement<Repair>[]): Promise<readonly Repair[]> =>
  (await Promise.all(parts.map(({ changes }) => changes()))).flat();

function refusal({ error, description }: TokenRefused, { realm, clientId }: KeycloakConnection): string | undefined {
  if (error === 'Realm does not exist') return `There is no realm "${realm}" (KEYCLOAK_REALM).`;
  if (description === 'Realm not enabled') return `The realm "${realm}" is disabled.`;
  if (/service account/i.test(description)) return `The client "${clientId}" has no service account.`;
  if (error === 'invalid_client') return `There is no client "${clientId}" (KEYCLOAK_CLIENT_ID), or it is disabled.`;
  if (error === 'unauthorized_client' && /credentials/i.test(description)) return `KEYCLOAK_CLIENT_SECRET is not the secret of the client "${clientId}".`;
  return undefined;
}
