import { ApiClient } from '../provider-api/api-client.js';

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

/** The Admin API of a realm, as a service account. */
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
