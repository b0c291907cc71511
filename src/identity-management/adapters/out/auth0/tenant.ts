import { PERMISSIONS } from '../../../../authentication/permissions.js';

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

/** The name by which the set-up finds the service's application, or creates it, if AUTH0_CLIENT_ID isn't set. */
export const SERVICE_NAME = 'load-data-service';

/** The name by which the set-up finds Swagger UI's application, or creates it, if SWAGGER_UI_CLIENT_ID isn't set. */
export const SWAGGER_UI_NAME = 'load-data-swagger-ui';

export const ADMINISTRATOR_ROLE = 'load-data-administrator';

/** The API's settings with which its tokens are acceptable to the service and carry permissions. */
export const API_SETTINGS = { signing_alg: 'RS256', enforce_policies: true, token_dialect: 'access_token_authz' };

/** The values of `token_dialect` with which Auth0 puts the claim `permissions` into tokens. */
export const DIALECTS = ['access_token_authz', 'rfc9068_profile_authz'];

/** The body of the request that creates the API. */
export const newApi = (audience: string) => ({
  name: 'Load data',
  identifier: audience,
  ...API_SETTINGS,
  scopes: PERMISSIONS.map((value) => ({ value })),
});

/** The service's application. A new one gets only the grant type `client_credentials`; an existing one keeps others. */
export const SERVICE_APPLICATION = {
  app_type: 'non_interactive',
  oidc_conformant: true,
  token_endpoint_auth_method: 'client_secret_post',
  grant_types: ['client_credentials'],
};

/** Swagger UI's application. A new one gets only the grant type `authorization_code`; an existing one keeps others. */
export const SWAGGER_UI_APPLICATION = {
  app_type: 'spa',
  oidc_conformant: true,
  token_endpoint_auth_method: 'none',
  grant_types: ['authorization_code'],
};

/** The addresses of Swagger UI's application, which it needs so that people can log in. */
export const swaggerUiAddresses = (baseUrl: string) => ({
  callbacks: [`${baseUrl}/docs/oauth2-redirect.html`],
  web_origins: [new URL(baseUrl).origin],
});
