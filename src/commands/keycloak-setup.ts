import { runCommand } from './command.js';
import { type KeycloakSetupEnvironment, loadKeycloakSetupEnvironment } from '../configuration/commands.js';
import { realmUrl } from '../identity-management/adapters/out/keycloak/realm-url.js';
import { SWAGGER_UI_CLIENT_ID } from '../identity-management/adapters/out/keycloak/realm.js';
import { RealmSetup } from '../identity-management/adapters/out/keycloak/realm-setup.js';
import type { TokenRefused } from '../identity-management/adapters/out/provider-api/api-failure.js';
import { askForCredentials, type Credentials, type ProviderSetup, runSetup } from './setup-command.js';

const HELP = `load-data-service keycloak-setup [--administrator <email>] [--dry-run]

Creates what the service needs in a Keycloak realm (KEYCLOAK_URL, KEYCLOAK_REALM), and the realm itself if it is missing.
Existing settings are kept; running it again changes nothing. Prints the environment for the service, with its secret, and
on standard error each step: "+" is created, "~" changed, "=" needs no change.

  --administrator  the user who gets the role with all permissions; created if missing. A user who has no password and
                   must set one at the next login gets one for that login, which is shown once
  --dry-run        shows what would be changed, and changes nothing
  --help           this text

Keycloak's administrator comes from KEYCLOAK_ADMIN_USERNAME and KEYCLOAK_ADMIN_PASSWORD, or is asked for on a terminal.

Examples:
  npx load-data-service keycloak-setup --administrator ada@grid.example --dry-run
  npm run --silent keycloak:setup -- --administrator ada@grid.example --dry-run     (in a clone)

Exit code: 0 done, 1 something couldn't be done, 2 wrong usage.
`;
const CREDENTIALS: Credentials = {
  variables: ['KEYCLOAK_ADMIN_USERNAME', 'KEYCLOAK_ADMIN_PASSWORD'],
  questions: ["Keycloak's administrator", 'Password'],
};

async function begin(): Promise<ProviderSetup> {
  const environment = loadKeycloakSetupEnvironment();
  const { url, realm, clientId, clientSecret, oidc, baseUrl, publicUrl } = environment;
  const [username, password] = await askForCredentials(CREDENTIALS, environment.username, environment.password);
  const connection = { url, realm, clientId, clientSecret, audience: oidc.audience, baseUrl, publicUrl };
  const setup = new RealmSetup({ ...connection, credentials: { username, password } });
  return {
    parts: (administrator) => Promise.resolve(setup.parts(administrator)),
    remarks: async (dryRun) => {
      const lines = (await setup.needlessRights()).map((right) => `client ${clientId} does not need the right ${right}`);
      const isAnother = clientSecret !== undefined && !dryRun && clientSecret !== (await setup.clientSecret());
      return isAnother ? [...lines, `client ${clientId} has another secret than KEYCLOAK_CLIENT_SECRET`] : lines;
    },
    variables: () => serviceVariables(setup, environment),
    served: environment,
    rights: "The administrator's rights",
    refusal: (error) => refusal(error, url),
    close: () => setup.close(),
  };
}

async function serviceVariables(setup: RealmSetup, environment: KeycloakSetupEnvironment): Promise<Record<string, string>> {
  const { url, realm, clientId, oidc } = environment;
  const named = await setup.issuer();
  const issuer = oidc.issuer ?? (named === realmUrl({ url, realm }) ? undefined : named);
  return {
    IDENTITY_PROVIDER: 'keycloak',
    KEYCLOAK_URL: url,
    KEYCLOAK_REALM: realm,
    KEYCLOAK_CLIENT_ID: clientId,
    KEYCLOAK_CLIENT_SECRET: await setup.clientSecret(),
    ...(issuer !== undefined && { OIDC_ISSUER: issuer }),
    SWAGGER_UI_CLIENT_ID,
  };
}

function refusal({ error, description }: TokenRefused, url: string): string {
  if (error === 'invalid_grant') return `Keycloak does not accept the administrator: ${description}.`;
  // In an OAuth error (RFC 6749, section 5.2), `error` is a single word. When the realm is missing, Keycloak answers
  // with a sentence instead; that isn't shown.
  return /^[a-z_]+$/.test(error) ? `Keycloak refuses the administrator: ${description || error}.` : `There is no Keycloak at ${url}.`;
}

await runCommand(() => runSetup({ help: HELP, credentials: CREDENTIALS, begin }), 1, 2);
