import { PERMISSIONS } from '../../../../authentication/permissions.js';

/** The scopes of the Management API that the service's application needs, and no others. */
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

/** The machine-to-machine application of the service, unless AUTH0_CLIENT_ID names another. */
export const SERVICE_NAME = 'load-data-service';

/** The single-page application of Swagger UI, unless SWAGGER_UI_CLIENT_ID names another. */
export const SWAGGER_UI_NAME = 'load-data-swagger-ui';

/** The role with all permissions. */
export const ADMINISTRATOR_ROLE = 'load-data-administrator';

/** API settings that produce tokens with permissions that the service accepts. */
export const API_SETTINGS = { signing_alg: 'RS256', enforce_policies: true, token_dialect: 'access_token_authz' };

/** The token dialects with a `permissions` claim. */
export const DIALECTS = ['access_token_authz', 'rfc9068_profile_authz'];

/** The API as first created. */
export const newApi = (audience: string) => ({
  name: 'Load data',
  identifier: audience,
  ...API_SETTINGS,
  scopes: PERMISSIONS.map((value) => ({ value })),
});

/** Client credentials only. Auth0's default would have four grants. */
export const SERVICE_APPLICATION = {
  app_type: 'non_interactive',
  oidc_conformant: true,
  token_endpoint_auth_method: 'client_secret_post',
  grant_types: ['client_credentials'],
};

/** Authorization code with PKCE only. */
export const SWAGGER_UI_APPLICATION = {
  app_type: 'spa',
  oidc_conformant: true,
  token_endpoint_auth_method: 'none',
  grant_types: ['authorization_code'],
};

/** The addresses from which people log in. */
export const swaggerUiAddresses = (baseUrl: string) => ({
  callbacks: [`${baseUrl}/docs/oauth2-redirect.html`],
  web_origins: [new URL(baseUrl).origin],
});
