import { ApiClient } from '../provider-api/api-client.js';
import { CallPace } from '../provider-api/call-pace.js';

export interface Auth0Connection {
  /** Where the tenant is, without a trailing slash: `https://tenant.eu.auth0.com`. A custom domain is another thing. */
  readonly url: string;
  /** The machine-to-machine application that may use the Management API. */
  readonly clientId: string;
  readonly clientSecret: string;
  /** Shared with others in this process who call the same tenant; one of its own without it. */
  readonly pace?: CallPace;
}

/** The Management API v2 of a tenant. */
export function managementApi({ url, clientId, clientSecret, pace = new CallPace() }: Auth0Connection): ApiClient {
  const audience = `${url}/api/v2/`;
  return new ApiClient({
    provider: 'Auth0',
    url: `${url}/api/v2`,
    token: {
      url: `${url}/oauth/token`,
      grant: { grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret, audience },
    },
    pace,
  });
}
