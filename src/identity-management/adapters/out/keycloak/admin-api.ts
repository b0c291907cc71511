import { z } from 'zod';
import type { ServiceError } from '../../../../common/service-error.js';
import { RoleNotFound, UserNotFound } from '../../../domain/errors.js';
import { type ApiAnswer, ApiClient, unexpected } from '../provider-api/api-client.js';
import { realmUrl } from './realm-url.js';

export interface KeycloakConnection {
  /** Keycloak's URL, without a trailing slash. */
  readonly url: string;
  readonly realm: string;
  /** The `clientId` of the confidential client whose service account administers the realm. */
  readonly clientId: string;
  readonly clientSecret: string;
}

/** An HTTP client for a realm's Admin API. Uses the service account of the Keycloak client `clientId`. */
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

/** The form of the ids that Keycloak gives to users, roles and clients. */
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const REFUSAL = z.object({ error: z.string().optional(), errorMessage: z.string().optional(), field: z.string().optional() });

/**
 * Picks from an answer's body the members that say why Keycloak refused a request. Each may be missing. Returns an
 * empty object if the body has another form.
 */
export const refusalOf = (body: unknown): z.infer<typeof REFUSAL> => REFUSAL.safeParse(body).data ?? {};

const MISSING: readonly (readonly [RegExp, typeof RoleNotFound | typeof UserNotFound])[] = [
  [/^User not found/, UserNotFound],
  [/^(Role not found|Could not find role)/, RoleNotFound],
];

/**
 * The error to throw for an answer without success: `UserNotFound` or `RoleNotFound` if Keycloak answers 404 and names
 * a user or role as missing. Any other answer, such as 404 for a missing realm, is an unexpected one.
 */
export function notFound(answer: ApiAnswer): ServiceError {
  const { error = '' } = refusalOf(answer.body);
  const row = answer.status === 404 ? MISSING.find(([text]) => text.test(error)) : undefined;
  return row ? new row[1]('id') : unexpected(answer);
}
