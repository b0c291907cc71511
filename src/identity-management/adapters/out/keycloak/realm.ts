import { NEW_USER_PROFILE } from './user-profile.js';

/** The attribute that marks a realm role as one that the service lists and assigns: its value is then `true`. */
export const ROLE_ATTRIBUTE = 'load_data_role';

/** A client that Keycloak creates with each new realm. Its roles are the rights to administer the realm. */
export const REALM_MANAGEMENT = 'realm-management';

/**
 * The rights to administer the realm that the service needs: for users, for realm roles, and for clients. It needs the
 * right for clients because permissions are roles of a client. The service creates these and adds them to realm roles.
 */
export const SERVICE_RIGHTS = ['manage-users', 'manage-realm', 'manage-clients'] as const;

/** The `clientId` of Swagger UI's public client. */
export const SWAGGER_UI_CLIENT_ID = 'load-data-swagger-ui';

/** The name of the realm role that has all permissions of the service. */
export const ADMINISTRATOR_ROLE = 'load-data-administrator';

/** The name of Keycloak's required action that makes a user set a password at the next login. */
export const UPDATE_PASSWORD = 'UPDATE_PASSWORD';

/**
 * The body of the request that creates a realm. In this realm, a user's e-mail is also the username. The set-up adds
 * clients, roles and scopes afterwards.
 */
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

/**
 * The settings of the client that represents the API. Nobody logs in with this client. Its `clientId` is the `aud` of
 * tokens, and its roles are the permissions.
 */
export const API_CLIENT = { bearerOnly: true };

/** The settings of the service's own client: a confidential client with a service account. */
export const SERVICE_CLIENT = {
  enabled: true,
  publicClient: false,
  bearerOnly: false,
  serviceAccountsEnabled: true,
  // If this were false, tokens of this client would contain none of the rights of its service account.
  fullScopeAllowed: true,
  clientAuthenticatorType: 'client-secret',
};

/** The settings of Swagger UI's client, which may use only the authorization code flow, with PKCE. */
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

/** The addresses that Swagger UI's client at Keycloak must have, so that people can log in to Swagger UI. */
export const swaggerUiAddresses = (baseUrl: string) => ({
  baseUrl: `${baseUrl}/docs`,
  redirectUris: [`${baseUrl}/docs/oauth2-redirect.html`],
  webOrigins: [new URL(baseUrl).origin],
});

/**
 * Protocol mappers, which add claims to a client's tokens: the API to the `aud`, and the user's attribute `customer_id`
 * as the claim `customer_id`.
 */
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

/** The client scope through which clients of the realm get the mappers of `protocolMappers`. */
export const clientScope = (audience: string) => ({
  name: audience,
  protocol: 'openid-connect',
  attributes: { 'include.in.token.scope': 'false', 'display.on.consent.screen': 'false' },
  protocolMappers: protocolMappers(audience),
});

/**
 * The body of the request that creates a realm role which the service lists and assigns: a composite of client roles of
 * the API.
 */
export const composedRole = (name: string, audience: string, permissions: readonly string[]) => ({
  name,
  composite: true,
  composites: { client: { [audience]: permissions } },
  attributes: { [ROLE_ATTRIBUTE]: ['true'] },
});
