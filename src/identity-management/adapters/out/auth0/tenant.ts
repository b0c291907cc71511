import { PERMISSIONS } from '../../../../authentication/permissions.js';

/** What the service's application may do in the Management API, and no more. */
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

/** The machine-to-machine application that the service is, unless AUTH0_CLIENT_ID says another. */
export const SERVICE_NAME = 'load-data-service';

/** The single-page application that Swagger UI is, unless SWAGGER_UI_CLIENT_ID says another. */
export const SWAGGER_UI_NAME = 'load-data-swagger-ui';

/** The role with all permissions. */
export const ADMINISTRATOR_ROLE = 'load-data-administrator';

/** The API's settings, with which tokens carry permissions that the service believes. */
export const API_SETTINGS = { signing_alg: 'RS256', enforce_policies: true, token_dialect: 'access_token_authz' };

/** Of these dialects tokens have `permissions`. */
export const DIALECTS = ['access_token_authz', 'rfc9068_profile_authz'];

/** The API as it begins. */
export const newApi = (audience: string) => ({
  name: 'Load data',
  identifier: audience,
  ...API_SETTINGS,
  scopes: PERMISSIONS.map((value) => ({ value })),
});

/** Client credentials, and no other grant: Auth0's own default has four. */
export const SERVICE_APPLICATION = {
  app_type: 'non_interactive',
  oidc_conformant: true,
  token_endpoint_auth_method: 'client_secret_post',
  grant_types: ['client_credentials'],
};

/** Authorization code with PKCE, and no other grant. */
export const SWAGGER_UI_APPLICATION = {
  app_type: 'spa',
  oidc_conformant: true,
  token_endpoint_auth_method: 'none',
  grant_types: ['authorization_code'],
};

/** Where people log in from. */
export const swaggerUiAddresses = (baseUrl: string) => ({
  callbacks: [`${baseUrl}/docs/oauth2-redirect.html`],
  web_origins: [new URL(baseUrl).origin],
});
