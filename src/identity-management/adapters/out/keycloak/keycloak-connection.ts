import { ApiClient } from '../provider-api/api-client.js';

export interface KeycloakConnection {
  /** Keycloak's URL, without a trailing slash. */
  readonly url: string;
  readonly realm: string;
  /** The confidential client whose service account administers the realm. */
  readonly clientId: string;
  readonly clientSecret: string;
}

/** The URL of a realm. It is also the realm's issuer, unless Keycloak is configured with another host name. */
export const realmUrl = ({ url, realm }: Pick<KeycloakConnection, 'url' | 'realm'>): string => `${url}/realms/${encodeURIComponent(realm)}`;

/** The Admin API of a realm, used as a service account. */
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
