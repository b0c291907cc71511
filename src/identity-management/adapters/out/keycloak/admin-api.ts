import { z } from 'zod';
import type { ServiceError } from '../../../../common/service-error.js';
import { RoleNotFound, UserNotFound } from '../../../domain/errors.js';
import { type ProviderAnswer, ApiClient, unexpected } from '../provider-api/api-client.js';
import { realmUrl } from './realm-url.js';

export interface KeycloakConnection {
  /** Keycloak's URL, without a trailing slash. */
  readonly url: string;
  readonly realm: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

/** A client for a realm's Admin API, which uses the service account of `clientId`. */
export function adminApi(connection: KeycloakConnection): ApiClient {
  const { url, realm, clientId, clientSecret } = connection;
  return new ApiClient({
    provider: 'Keycloak',
    url: `${url}/admin/realms/${encodeURIComponent(realm)}`,
    token: {
      url: `${realmUrl(connection)}/protocol/openid-connect/token`,
      grant: { grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret },
    },
  });
}

export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const REFUSAL = z.object({ error: z.string().optional(), errorMessage: z.string().optional(), field: z.string().optional() });

/** The members of an answer's body that say why Keycloak refused a request; empty if the body has another form. */
export const refusalOf = (body: unknown): z.infer<typeof REFUSAL> => REFUSAL.safeParse(body).data ?? {};

const MISSING: readonly (readonly [RegExp, typeof RoleNotFound | typeof UserNotFound])[] = [
  [/^User not found/, UserNotFound],
  [/^(Role not found|Could not find role)/, RoleNotFound],
];

/** Returns `UserNotFound` or `RoleNotFound` for a 404 that names one as missing, otherwise a `ProviderError`. */
export function notFound(answer: ProviderAnswer): ServiceError {
  const { error = '' } = refusalOf(answer.body);
  const row = answer.status === 404 ? MISSING.find(([text]) => text.test(error)) : undefined;
  return row ? new row[1]('id') : unexpected(answer);
}
