import { publicPath } from '../../configuration/served-address.js';
import type { Environment } from '../../configuration/service.js';
import { realmUrl } from '../../identity-management/adapters/out/keycloak/admin-api.js';

/** The OAuth 2 server from which API users get tokens, as described by the OpenAPI document and used by Swagger UI. */
export interface AuthorizationServer {
  /** Describes who can get a token. */
  readonly description: string;
  /** The URL of the token endpoint; a path without a host if the endpoint belongs to this service. */
  readonly tokenUrl: string;
  /** Login by authorization code with PKCE; undefined if it isn't offered. */
  readonly login: Login | undefined;
}

export interface Login {
  /** The id of a public client that may redirect to `{base_url}/docs/oauth2-redirect.html`. */
  readonly clientId: string;
  readonly authorizationUrl: string;
  /** Parameters that the provider requires in the authorization request in addition to those of OAuth 2. */
  readonly additionalQueryStringParams?: Readonly<Record<string, string>>;
}

const AUTH0_DESCRIPTION = [
  "An application of the tenant's: a machine-to-machine application, which has the permissions, or the person who logs in.",
  'For a machine Auth0 wants the API (`audience`) in the request for a token, which Swagger UI does not send there: this works where the API is the "Default Audience" of the tenant.',
  'Otherwise request a token yourself, and give it under `token`.',
].join(' ');

/** The authorization server of the selected identity provider, as seen by browsers. */
export function authorizationServerFor(environment: Environment): AuthorizationServer {
  const { identityProvider, oidc, swaggerUiClientId: clientId } = environment;
  switch (identityProvider.adapter) {
    case 'embedded':
      return {
        description: 'The administrator: client id `admin`, and the secret in `DATA_DIR/identity/admin-secret`.',
        tokenUrl: `${publicPath(environment)}/idp/token`,
        login: undefined,
      };
    case 'keycloak': {
      // Keycloak's issuer is the realm's public address. The service itself may use an internal one.
      const openIdConnect = `${oidc.issuer ?? realmUrl(identityProvider)}/protocol/openid-connect`;
      return {
        description: "A client of the realm's: its service account has the permissions, or the person who logs in through it.",
        tokenUrl: `${openIdConnect}/token`,
        login: clientId === undefined ? undefined : { clientId, authorizationUrl: `${openIdConnect}/auth` },
      };
    }
    case 'module':
      // Only the module knows where its tokens come from.
      return { description: "A client of the identity provider's.", tokenUrl: oidc.issuer ?? '/', login: undefined };
    case 'auth0': {
      // A tenant can have a custom domain for its users, which is then the issuer.
      const domain = (oidc.issuer ?? identityProvider.url).replace(/\/$/, '');
      const additionalQueryStringParams = { audience: oidc.audience };
      return {
        description: AUTH0_DESCRIPTION,
        tokenUrl: `${domain}/oauth/token`,
        login: clientId === undefined ? undefined : { clientId, authorizationUrl: `${domain}/authorize`, additionalQueryStringParams },
      };
    }
  }
}
