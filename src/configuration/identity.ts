import { z } from 'zod';
import { httpUrl, oneOf, plainText, required, withoutSlash } from './variables.js';

export const KEYCLOAK_REALM = {
  KEYCLOAK_URL: required.pipe(httpUrl).transform(withoutSlash),
  // The pattern refuses the characters that Keycloak refuses in the name of a realm, control characters, and the names
  // `.` and `..`, which have a different meaning in a URL's path.
  KEYCLOAK_REALM: required.regex(
    /^(?!\.{1,2}$)[^\p{Cc}\p{Cs}\\:/?#[\]@!$&()*+,;=]+$/u,
    'must be the name of a realm: not "." or "..", and without \\ : / ? # [ ] @ ! $ & ( ) * + , ; = and control characters',
  ),
};

const KEYCLOAK_VARIABLES = z
  .object({
    ...KEYCLOAK_REALM,
    KEYCLOAK_CLIENT_ID: required,
    KEYCLOAK_CLIENT_SECRET: required,
    KEYCLOAK_INVITATION_MAIL: oneOf('true', 'false').default('false'),
  })
  .transform((found) => ({
    adapter: 'keycloak' as const,
    url: found.KEYCLOAK_URL,
    realm: found.KEYCLOAK_REALM,
    clientId: found.KEYCLOAK_CLIENT_ID,
    clientSecret: found.KEYCLOAK_CLIENT_SECRET,
    invitationMail: found.KEYCLOAK_INVITATION_MAIL === 'true',
  }));

/** The form of an Auth0 tenant's domain. The prefix `http://` is for test doubles of Auth0. */
const DOMAIN = /^(http:\/\/)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?$/;

const urlOf = (domain: string): string => (domain.startsWith('http://') ? domain : `https://${domain}`);

export const AUTH0_TENANT = {
  NODE_ENV: plainText.optional(),
  AUTH0_DOMAIN: required.refine((domain) => DOMAIN.test(domain) && URL.canParse(urlOf(domain)), 'must be a host name such as tenant.eu.auth0.com'),
  AUTH0_CONNECTION: plainText.default('Username-Password-Authentication'),
  OIDC_AUDIENCE: required,
};

/**
 * The URL of the Auth0 tenant, without a trailing slash. Adds an issue to `context` if the URL isn't https although
 * NODE_ENV is `production`.
 */
export function tenantUrl({ NODE_ENV, AUTH0_DOMAIN: domain }: { NODE_ENV?: string | undefined; AUTH0_DOMAIN: string }, context: z.RefinementCtx): string {
  if (domain.startsWith('http://') && NODE_ENV === 'production') {
    context.addIssue({ code: 'custom', path: ['AUTH0_DOMAIN'], message: 'must be a host name alone with NODE_ENV=production' });
  }
  // `origin` has the domain in lower case, as Auth0 writes it into tokens. Without OIDC_ISSUER, the expected issuer is
  // derived from the returned URL.
  return new URL(urlOf(domain)).origin;
}

export const AUTH0_VARIABLES = z
  .object({
    ...AUTH0_TENANT,
    AUTH0_CLIENT_ID: required,
    AUTH0_CLIENT_SECRET: required,
    AUTH0_INVITATION_MAIL: oneOf('true', 'false').default('false'),
  })
  .transform((found, context) => ({
    adapter: 'auth0' as const,
    url: tenantUrl(found, context),
    clientId: found.AUTH0_CLIENT_ID,
    clientSecret: found.AUTH0_CLIENT_SECRET,
    connection: found.AUTH0_CONNECTION,
    invitationMail: found.AUTH0_INVITATION_MAIL === 'true',
  }));

export const IDENTITY_PROVIDERS = {
  embedded: z.object({}).transform(() => ({ adapter: 'embedded' as const })),
  keycloak: KEYCLOAK_VARIABLES,
  auth0: AUTH0_VARIABLES,
};

export type KeycloakEnvironment = z.infer<typeof KEYCLOAK_VARIABLES>;

export type Auth0Environment = z.infer<typeof AUTH0_VARIABLES>;
