import { publicPath } from '../../configuration/served-address.js';
import type { Environment } from '../../configuration/service.js';
import { realmUrl } from '../../identity-management/adapters/out/keycloak/realm-url.js';

export interface AuthorizationServer {
  readonly description: string;
  /**
   * The URL of the token endpoint; a path without a host if the endpoint belongs to this service. For the identity
   * provider of a team's module, the issuer (OIDC_ISSUER), or `/` if that isn't set.
   */
  readonly tokenUrl: string;
  readonly login: Login | undefined;
}

export interface Login {
  /** The id of a public OAuth client that may redirect to `{base_url}/docs/oauth2-redirect.html`. */
  readonly clientId: string;
  readonly authorizationUrl: string;
  readonly additionalQueryStringParams?: Readonly<Record<string, string>>;
}

const AUTH0_DESCRIPTION = [
  "An application of the tenant's: a machine-to-machine application, which has the permissions, or the person who logs in.",
  'For a machine Auth0 wants the API (`audience`) in the request for a token, which Swagger UI does not send there: this works where the API is the "Default Audience" of the tenant.',
  'Otherwise request a token yourself, and give it under `token`.',
].join(' ');

/** The authorization server of the selected identity provider, with the URLs by which browsers reach it. */
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
      // Browsers reach the realm by its public URL, which is the issuer of Keycloak's tokens (OIDC_ISSUER). The service
      // itself may use an internal URL.
      const openIdConnect = `${oidc.issuer ?? realmUrl(identityProvider)}/protocol/openid-connect`;
      return {
        description: "A client of the realm's: its service account has the permissions, or the person who logs in through it.",
        tokenUrl: `${openIdConnect}/token`,
        login: clientId === undefined ? undefined : { clientId, authorizationUrl: `${openIdConnect}/auth` },
      };
    }
    case 'module':
      return { description: "A client of the identity provider's.", tokenUrl: oidc.issuer ?? '/', login: undefined };
    case 'auth0': {
      // An Auth0 tenant can have a custom domain. Users then log in there, and that domain is the issuer (OIDC_ISSUER).
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
