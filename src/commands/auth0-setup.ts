import { runCommand } from './command.js';
import { type Auth0SetupEnvironment, loadAuth0SetupEnvironment } from '../configuration/commands.js';
import { SERVICE_NAME } from '../identity-management/adapters/out/auth0/tenant.js';
import { TenantSetup } from '../identity-management/adapters/out/auth0/tenant-setup.js';
import type { TokenRefused } from '../identity-management/adapters/out/provider-api/api-failure.js';
import { askForCredentials, type Credentials, type ProviderSetup, runSetup } from './setup-command.js';

const HELP = `load-data-service auth0-setup [--administrator <email>] [--dry-run]

Creates what the service needs in an Auth0 tenant (AUTH0_DOMAIN, OIDC_AUDIENCE, AUTH0_CONNECTION). Existing settings are
kept; running it again changes nothing. Prints the environment for the service, with its secret, and on standard error
each step: "+" is created, "~" changed, "=" needs no change, "!" is more than the service needs.

  --administrator  the user who gets the role with all permissions; created if missing. A user who has never logged in
                   gets a link to set a password, which is shown once
  --dry-run        shows what would be changed, and changes nothing
  --help           this text

A machine-to-machine application that may do this comes from AUTH0_SETUP_CLIENT_ID and AUTH0_SETUP_CLIENT_SECRET, or is
asked for on a terminal; docs/auth0.md has the scopes that it needs.

Examples:
  npx load-data-service auth0-setup --administrator ada@grid.example --dry-run
  npm run --silent auth0:setup -- --administrator ada@grid.example --dry-run     (in a clone)

Exit code: 0 done, 1 something couldn't be done, 2 wrong usage.
`;
const CREDENTIALS: Credentials = {
  variables: ['AUTH0_SETUP_CLIENT_ID', 'AUTH0_SETUP_CLIENT_SECRET'],
  questions: ['Client id of an application that may set up the tenant', 'Client secret'],
};

async function begin(): Promise<ProviderSetup> {
  const environment = loadAuth0SetupEnvironment();
  const { url, oidc, connection, baseUrl, publicUrl, clientId, swaggerUiClientId, setupClientId, setupClientSecret } = environment;
  const [id, secret] = await askForCredentials(CREDENTIALS, setupClientId, setupClientSecret);
  const tenant = { url, audience: oidc.audience, connection, baseUrl, publicUrl, clientId, swaggerUiClientId };
  const setup = new TenantSetup({ ...tenant, credentials: { clientId: id, clientSecret: secret } });
  return {
    parts: (administrator) => setup.parts(administrator),
    remarks: async () => (await setup.needlessScopes()).map((scope) => `application ${SERVICE_NAME} does not need the scope ${scope}`),
    variables: () => serviceVariables(setup, environment),
    served: environment,
    rights: "The application's scopes",
    refusal: (error) => refusal(error, environment.domain),
    close: () => setup.close(),
  };
}

async function serviceVariables(setup: TenantSetup, environment: Auth0SetupEnvironment): Promise<Record<string, string>> {
  const { domain, connection, oidc } = environment;
  const { clientId, clientSecret } = await setup.serviceCredentials();
  return {
    IDENTITY_PROVIDER: 'auth0',
    AUTH0_DOMAIN: domain,
    AUTH0_CLIENT_ID: clientId,
    AUTH0_CLIENT_SECRET: clientSecret,
    AUTH0_CONNECTION: connection,
    ...(oidc.issuer !== undefined && { OIDC_ISSUER: oidc.issuer }),
    SWAGGER_UI_CLIENT_ID: await setup.swaggerUiClientId(),
  };
}

function refusal({ error, description }: TokenRefused, domain: string): string {
  return error === '' ? `There is no tenant at ${domain}.` : `Auth0 gives no token for AUTH0_SETUP_CLIENT_ID: ${description || error}.`;
}

await runCommand(() => runSetup({ help: HELP, credentials: CREDENTIALS, begin }), 1, 2);
