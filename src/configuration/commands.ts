import { z } from 'zod';
import { AUTH0_TENANT, AUTH0_VARIABLES, type Auth0Environment, KEYCLOAK_REALM, tenantUrl } from './identity.js';
import { baseUrl, SERVED_VARIABLES, servedAddress } from './served-address.js';
import { SERVICE_VARIABLES } from './service.js';
import { EnvironmentError, parseVariables, plainText, readVariables, type Variables } from './variables.js';

const { OIDC_ISSUER, OIDC_AUDIENCE, SWAGGER_UI_CLIENT_ID } = SERVICE_VARIABLES;

const KEYCLOAK_SETUP_VARIABLES = z.object({
  ...{ ...SERVED_VARIABLES, OIDC_ISSUER, OIDC_AUDIENCE },
  ...KEYCLOAK_REALM,
  KEYCLOAK_REALM: KEYCLOAK_REALM.KEYCLOAK_REALM.refine((realm) => realm !== 'master', "must be another realm than Keycloak's own"),
  KEYCLOAK_CLIENT_ID: plainText.default('load-data-service'),
  KEYCLOAK_CLIENT_SECRET: plainText.optional(),
  KEYCLOAK_ADMIN_USERNAME: plainText.optional(),
  KEYCLOAK_ADMIN_PASSWORD: plainText.optional(),
});

export interface ServedEnvironment {
  readonly basePath: string;
  readonly publicUrl: string | undefined;
  readonly baseUrl: string;
  readonly oidc: { readonly issuer: string | undefined; readonly audience: string };
}

export interface KeycloakSetupEnvironment extends ServedEnvironment {
  readonly url: string;
  readonly realm: string;
  readonly clientId: string;
  /** The secret for the service's client, if the set-up creates that client. If undefined, Keycloak generates one. */
  readonly clientSecret: string | undefined;
  readonly username: string | undefined;
  readonly password: string | undefined;
}

/**
 * Validates the variables for the set-up of Keycloak.
 *
 * @throws EnvironmentError with one line for each problem.
 */
export function parseKeycloakSetupEnvironment(variables: Variables): KeycloakSetupEnvironment {
  const found = parseVariables(KEYCLOAK_SETUP_VARIABLES, variables);
  return {
    ...served(found),
    url: found.KEYCLOAK_URL,
    realm: found.KEYCLOAK_REALM,
    clientId: found.KEYCLOAK_CLIENT_ID,
    clientSecret: found.KEYCLOAK_CLIENT_SECRET,
    username: found.KEYCLOAK_ADMIN_USERNAME,
    password: found.KEYCLOAK_ADMIN_PASSWORD,
  };
}

/**
 * Loads the variables for the set-up of Keycloak from the process's environment and the file `.env`.
 *
 * @throws EnvironmentError for invalid variables, and when `.env` exists but can't be read or has an invalid line.
 */
export const loadKeycloakSetupEnvironment = (): KeycloakSetupEnvironment => parseKeycloakSetupEnvironment(readVariables());

const AUTH0_SETUP_VARIABLES = z
  .object({
    ...{ ...SERVED_VARIABLES, OIDC_ISSUER, SWAGGER_UI_CLIENT_ID },
    ...AUTH0_TENANT,
    AUTH0_CLIENT_ID: plainText.optional(),
    AUTH0_SETUP_CLIENT_ID: plainText.optional(),
    AUTH0_SETUP_CLIENT_SECRET: plainText.optional(),
  })
  .transform((found, context) => ({ ...found, url: tenantUrl(found, context) }));

export interface Auth0SetupEnvironment extends ServedEnvironment {
  readonly domain: string;
  readonly url: string;
  readonly connection: string;
  readonly clientId: string | undefined;
  readonly swaggerUiClientId: string | undefined;
  readonly setupClientId: string | undefined;
  readonly setupClientSecret: string | undefined;
}

/**
 * Validates the variables for the set-up of Auth0.
 *
 * @throws EnvironmentError with one line for each problem.
 */
export function parseAuth0SetupEnvironment(variables: Variables): Auth0SetupEnvironment {
  const found = parseVariables(AUTH0_SETUP_VARIABLES, variables);
  return {
    ...served(found),
    domain: found.AUTH0_DOMAIN,
    url: found.url,
    connection: found.AUTH0_CONNECTION,
    clientId: found.AUTH0_CLIENT_ID,
    swaggerUiClientId: found.SWAGGER_UI_CLIENT_ID,
    setupClientId: found.AUTH0_SETUP_CLIENT_ID,
    setupClientSecret: found.AUTH0_SETUP_CLIENT_SECRET,
  };
}

/**
 * Loads the variables for the set-up of Auth0 from the process's environment and the file `.env`.
 *
 * @throws EnvironmentError for invalid variables, and when `.env` exists but can't be read or has an invalid line.
 */
export const loadAuth0SetupEnvironment = (): Auth0SetupEnvironment => parseAuth0SetupEnvironment(readVariables());

const AUTH0_CHECK_VARIABLES = z.object({ AUTH0_CHECK_DOMAIN: z.string().optional(), AUTH0_DOMAIN: z.string().optional(), OIDC_AUDIENCE }).refine(
  (found) => found.AUTH0_CHECK_DOMAIN !== undefined && found.AUTH0_CHECK_DOMAIN === found.AUTH0_DOMAIN,
  { path: ['AUTH0_CHECK_DOMAIN'], message: 'must be the same as AUTH0_DOMAIN, which says that this tenant is for tests' },
);

/**
 * Loads the settings of the Auth0 tenant that `npm run auth0:check` checks. The check creates users and roles, so
 * AUTH0_CHECK_DOMAIN must confirm that the tenant is only for tests.
 *
 * @throws EnvironmentError with one line for each problem of a variable; also when `.env` exists but can't be read or
 * has an invalid line.
 */
export function loadAuth0CheckEnvironment(): Auth0Environment & { readonly audience: string } {
  const found = parseVariables(AUTH0_CHECK_VARIABLES.and(AUTH0_VARIABLES), readVariables());
  return { ...found, audience: found.OIDC_AUDIENCE };
}

interface ServedVariables extends z.infer<z.ZodObject<typeof SERVED_VARIABLES>> {
  readonly OIDC_ISSUER?: string | undefined;
  readonly OIDC_AUDIENCE: string;
}

function served(found: ServedVariables): ServedEnvironment {
  const address = servedAddress(found);
  if (found.PORT === 0 && found.PUBLIC_URL === undefined) throw new EnvironmentError(['PUBLIC_URL: must be set where PORT is 0']);
  const { basePath, publicUrl } = address;
  return { basePath, publicUrl, baseUrl: baseUrl(address, found.PORT), oidc: { issuer: found.OIDC_ISSUER, audience: found.OIDC_AUDIENCE } };
}
