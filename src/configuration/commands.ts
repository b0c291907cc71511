import { z } from 'zod';
import { AUTH0_TENANT, AUTH0_VARIABLES, type Auth0Environment, KEYCLOAK_REALM, tenantUrl } from './identity.js';
import { baseUrl, SERVED_VARIABLES, servedAddress } from './served-address.js';
import { SERVICE_VARIABLES } from './service.js';
import { EnvironmentError, parseVariables, readVariables, type Variables } from './variables.js';

const { OIDC_ISSUER, OIDC_AUDIENCE, SWAGGER_UI_CLIENT_ID } = SERVICE_VARIABLES;

const KEYCLOAK_SETUP_VARIABLES = z.object({
  ...{ ...SERVED_VARIABLES, OIDC_ISSUER, OIDC_AUDIENCE },
  ...KEYCLOAK_REALM,
  KEYCLOAK_REALM: KEYCLOAK_REALM.KEYCLOAK_REALM.refine((realm) => realm !== 'master', "must be another realm than Keycloak's own"),
  KEYCLOAK_CLIENT_ID: z.string().default('load-data-service'),
  KEYCLOAK_CLIENT_SECRET: z.string().optional(),
  KEYCLOAK_ADMIN_USERNAME: z.string().optional(),
  KEYCLOAK_ADMIN_PASSWORD: z.string().optional(),
});

/** The address of the service for which an identity provider is set up, and which tokens the service accepts. */
export interface ServedEnvironment {
  readonly basePath: string;
  readonly publicUrl: string | undefined;
  /** The `{base_url}` that clients see. */
  readonly baseUrl: string;
  readonly oidc: { readonly issuer: string | undefined; readonly audience: string };
}

/** The settings for setting up a Keycloak realm. */
export interface KeycloakSetupEnvironment extends ServedEnvironment {
  /** Keycloak's URL, without a trailing slash. */
  readonly url: string;
  readonly realm: string;
  readonly clientId: string;
  /**
   * The secret that the service's client gets if the set-up creates that client. If undefined, Keycloak generates the
   * secret.
   */
  readonly clientSecret: string | undefined;
  /** The user name of Keycloak's administrator, if set. */
  readonly username: string | undefined;
  readonly password: string | undefined;
}

/** Validates the variables for the set-up of Keycloak. Otherwise like `parseEnvironment`. */
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

/** Loads the environment for the set-up of Keycloak. Otherwise like `loadEnvironment`. */
export const loadKeycloakSetupEnvironment = (): KeycloakSetupEnvironment => parseKeycloakSetupEnvironment(readVariables());

const AUTH0_SETUP_VARIABLES = z
  .object({
    ...{ ...SERVED_VARIABLES, OIDC_ISSUER, SWAGGER_UI_CLIENT_ID },
    ...AUTH0_TENANT,
    AUTH0_CLIENT_ID: z.string().optional(),
    AUTH0_SETUP_CLIENT_ID: z.string().optional(),
    AUTH0_SETUP_CLIENT_SECRET: z.string().optional(),
  })
  .transform((found, context) => ({ ...found, url: tenantUrl(found, context) }));

/** The settings for setting up an Auth0 tenant. */
export interface Auth0SetupEnvironment extends ServedEnvironment {
  /** The value of AUTH0_DOMAIN. */
  readonly domain: string;
  /** The tenant's URL, without a trailing slash. */
  readonly url: string;
  readonly connection: string;
  /** The client ids of the service's application and of Swagger UI's application, if set. */
  readonly clientId: string | undefined;
  readonly swaggerUiClientId: string | undefined;
  /** The client id and secret of the application that may set up the tenant, if set. */
  readonly setupClientId: string | undefined;
  readonly setupClientSecret: string | undefined;
}

/** Validates the variables for the set-up of Auth0. Otherwise like `parseEnvironment`. */
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

/** Loads the environment for the set-up of Auth0. Otherwise like `loadEnvironment`. */
export const loadAuth0SetupEnvironment = (): Auth0SetupEnvironment => parseAuth0SetupEnvironment(readVariables());

const AUTH0_CHECK_VARIABLES = z.object({ AUTH0_CHECK_DOMAIN: z.string().optional(), AUTH0_DOMAIN: z.string().optional(), OIDC_AUDIENCE }).refine(
  (found) => found.AUTH0_CHECK_DOMAIN !== undefined && found.AUTH0_CHECK_DOMAIN === found.AUTH0_DOMAIN,
  { path: ['AUTH0_CHECK_DOMAIN'], message: 'must be the same as AUTH0_DOMAIN, which says that this tenant is for tests' },
);

/**
 * Loads the settings of the tenant for `auth0:check`, from the service's variables. The check creates users and roles
 * in that tenant, so AUTH0_CHECK_DOMAIN must repeat AUTH0_DOMAIN. This confirms that the tenant is only for tests.
 *
 * @throws EnvironmentError as `parseEnvironment`; also when AUTH0_CHECK_DOMAIN isn't the same as AUTH0_DOMAIN.
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
