import { NEW_USER_PROFILE } from './user-profile.js';

/** The attribute whose value `true` marks a realm role as one that the service lists and assigns. */
export const ROLE_ATTRIBUTE = 'load_data_role';

/** A client that Keycloak creates with each realm. Its roles are the rights to administer the realm. */
export const REALM_MANAGEMENT = 'realm-management';

/** The service's rights. It needs `manage-clients` because the permissions that it creates are roles of a client. */
export const SERVICE_RIGHTS = ['manage-users', 'manage-realm', 'manage-clients'] as const;

export const SWAGGER_UI_CLIENT_ID = 'load-data-swagger-ui';

export const ADMINISTRATOR_ROLE = 'load-data-administrator';

export const UPDATE_PASSWORD = 'UPDATE_PASSWORD';

/** The body of the request that creates a realm, in which a user's e-mail is also the username. */
export const newRealm = (realm: string) => ({
  realm,
  enabled: true,
  registrationEmailAsUsername: true,
  components: {
    'org.keycloak.userprofile.UserProfileProvider': [
      { providerId: 'declarative-user-profile', config: { 'kc.user.profile.config': [JSON.stringify(NEW_USER_PROFILE)] } },
    ],
  },
});

/** The API's client. Nobody logs in with it. Its `clientId` is the `aud` of tokens, its roles are the permissions. */
export const API_CLIENT = { bearerOnly: true };

export const SERVICE_CLIENT = {
  enabled: true,
  publicClient: false,
  bearerOnly: false,
  serviceAccountsEnabled: true,
  // If `fullScopeAllowed` were false, tokens of this client would contain none of the rights of its service account.
  fullScopeAllowed: true,
  clientAuthenticatorType: 'client-secret',
};

export const SWAGGER_UI_CLIENT = {
  enabled: true,
  publicClient: true,
  bearerOnly: false,
  standardFlowEnabled: true,
  implicitFlowEnabled: false,
  directAccessGrantsEnabled: false,
  serviceAccountsEnabled: false,
  fullScopeAllowed: true,
  attributes: { 'pkce.code.challenge.method': 'S256' },
};

/** The addresses of Swagger UI's client, which it needs so that people can log in. */
export const swaggerUiAddresses = (baseUrl: string) => ({
  baseUrl: `${baseUrl}/docs`,
  redirectUris: [`${baseUrl}/docs/oauth2-redirect.html`],
  webOrigins: [new URL(baseUrl).origin],
});

/** Protocol mappers that put the API into the `aud` of tokens, and a user's attribute `customer_id` into that claim. */
export const protocolMappers = (audience: string) => [
  {
    name: 'audience',
    protocol: 'openid-connect',
    protocolMapper: 'oidc-audience-mapper',
    config: { 'included.client.audience': audience, 'access.token.claim': 'true' },
  },
  {
    name: 'customer_id',
    protocol: 'openid-connect',
    protocolMapper: 'oidc-usermodel-attribute-mapper',
    config: { 'user.attribute': 'customer_id', 'claim.name': 'customer_id', multivalued: 'true', 'jsonType.label': 'String', 'access.token.claim': 'true' },
  },
];

/** The client scope through which clients of the realm get the protocol mappers. */
export const clientScope = (audience: string) => ({
  name: audience,
  protocol: 'openid-connect',
  attributes: { 'include.in.token.scope': 'false', 'display.on.consent.screen': 'false' },
  protocolMappers: protocolMappers(audience),
});

/** The body of the request that creates a role of the service: a composite of client roles of the API. */
export const composedRole = (name: string, audience: string, permissions: readonly string[]) => ({
  name,
  composite: true,
  composites: { client: { [audience]: permissions } },
  attributes: { [ROLE_ATTRIBUTE]: ['true'] },
});
