import { NEW_USER_PROFILE } from './user-profile.js';

/** Of a realm's roles only those that have it, `true`, are listed and given. */
export const ROLE_ATTRIBUTE = 'load_data_role';

/** The client that keeps Keycloak's own rights over a realm, as roles. */
export const REALM_MANAGEMENT = 'realm-management';

/** The least rights of the service: users; roles of the realm; clients, because permissions are made and put into roles. */
export const SERVICE_RIGHTS = ['manage-users', 'manage-realm', 'manage-clients'] as const;

/** The public client that Swagger UI is. */
export const SWAGGER_UI_CLIENT_ID = 'load-data-swagger-ui';

/** The role with all permissions. */
export const ADMINISTRATOR_ROLE = 'load-data-administrator';

/** The action that Keycloak requires, before anything else, of who has to set a password. */
export const UPDATE_PASSWORD = 'UPDATE_PASSWORD';

/** A realm before its parts: users are known by their e-mail. */
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

/** The API: nobody logs in with it. Its `clientId` is what tokens carry as `aud`; its roles are the permissions. */
export const API_CLIENT = { bearerOnly: true };

/** What the service is in Keycloak: a confidential client with a service account. */
export const SERVICE_CLIENT = {
  enabled: true,
  publicClient: false,
  bearerOnly: false,
  serviceAccountsEnabled: true,
  // Otherwise its tokens would have none of its rights.
  fullScopeAllowed: true,
  clientAuthenticatorType: 'client-secret',
};

/** Authorization code with PKCE, and no other grant. */
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

/** Where people log in from. */
export const swaggerUiAddresses = (baseUrl: string) => ({
  baseUrl: `${baseUrl}/docs`,
  redirectUris: [`${baseUrl}/docs/oauth2-redirect.html`],
  webOrigins: [new URL(baseUrl).origin],
});

/** Puts the API into the `aud` of a client's tokens, and a user's `customer_id` into them. */
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

/** By it each client of the realm gets the mappers. */
export const clientScope = (audience: string) => ({
  name: audience,
  protocol: 'openid-connect',
  attributes: { 'include.in.token.scope': 'false', 'display.on.consent.screen': 'false' },
  protocolMappers: protocolMappers(audience),
});

/** A composite of client roles of the API, which the service lists and gives. */
export const composedRole = (name: string, audience: string, permissions: readonly string[]) => ({
  name,
  composite: true,
  composites: { client: { [audience]: permissions } },
  attributes: { [ROLE_ATTRIBUTE]: ['true'] },
});
