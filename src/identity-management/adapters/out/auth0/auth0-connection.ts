import { ApiClient } from '../provider-api/api-client.js';
import { CallPace } from '../provider-api/call-pace.js';

export interface Auth0Connection {
  /** The tenant's URL, without a trailing slash: `https://tenant.eu.auth0.com`. Not its custom domain. */
  readonly url: string;
  /** The machine-to-machine application that may use the Management API. */
  readonly clientId: string;
  readonly clientSecret: string;
  /** The pace shared with other clients of the same tenant in this process. Default: a new one. */
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
