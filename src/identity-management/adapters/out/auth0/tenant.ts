import { PERMISSIONS } from '../../../../authentication/permissions.js';

/** The scopes of the Management API that the service's application needs. It needs no other scopes. */
export const SERVICE_SCOPES = [
  'read:users',
  'create:users',
  'update:users',
  'delete:users',
  'read:roles',
  'create:roles',
  'update:roles',
  'delete:roles',
  'read:role_members',
  'create:role_members',
  'read:resource_servers',
  'update:resource_servers',
] as const;

/**
 * The name of the service's machine-to-machine application at Auth0. If AUTH0_CLIENT_ID is not set, the set-up finds
 * the application by this name, or creates it.
 */
export const SERVICE_NAME = 'load-data-service';

/**
 * The name of Swagger UI's single-page application at Auth0. If SWAGGER_UI_CLIENT_ID is not set, the set-up finds the
 * application by this name, or creates it.
 */
export const SWAGGER_UI_NAME = 'load-data-swagger-ui';

/** The name of the tenant's role that has all permissions of the service. */
export const ADMINISTRATOR_ROLE = 'load-data-administrator';

/** The settings of the API at Auth0 with which tokens are acceptable to the service and carry permissions. */
export const API_SETTINGS = { signing_alg: 'RS256', enforce_policies: true, token_dialect: 'access_token_authz' };

/** The values of the API's setting `token_dialect` with which Auth0 puts the claim `permissions` into tokens. */
export const DIALECTS = ['access_token_authz', 'rfc9068_profile_authz'];

/** The body of the request with which the set-up creates the API. */
export const newApi = (audience: string) => ({
  name: 'Load data',
  identifier: audience,
  ...API_SETTINGS,
  scopes: PERMISSIONS.map((value) => ({ value })),
});

/**
 * The settings that the service's application must have. A new application gets only the grant type client credentials;
 * Auth0's default allows four. An existing one keeps its other grant types.
 */
export const SERVICE_APPLICATION = {
  app_type: 'non_interactive',
  oidc_conformant: true,
  token_endpoint_auth_method: 'client_secret_post',
  grant_types: ['client_credentials'],
};

/**
 * The settings that Swagger UI's application must have. A new application may use only the grant type authorization
 * code, with PKCE. An existing one keeps its other grant types.
 */
export const SWAGGER_UI_APPLICATION = {
  app_type: 'spa',
  oidc_conformant: true,
  token_endpoint_auth_method: 'none',
  grant_types: ['authorization_code'],
};

/** The addresses that Swagger UI's application at Auth0 must have, so that people can log in to Swagger UI. */
export const swaggerUiAddresses = (baseUrl: string) => ({
  callbacks: [`${baseUrl}/docs/oauth2-redirect.html`],
  web_origins: [new URL(baseUrl).origin],
});
