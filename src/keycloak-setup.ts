import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { isEmail } from 'class-validator';
import { CommandError, commandArguments, runCommand } from './common/command.js';
import { toDotEnv } from './common/dot-env.js';
import { ask, isTerminal } from './common/prompt.js';
import { type KeycloakSetupEnvironment, loadKeycloakSetupEnvironment } from './environment.js';
import { realmUrl } from './identity-management/adapters/out/keycloak/keycloak-connection.js';
import { SWAGGER_UI_CLIENT_ID } from './identity-management/adapters/out/keycloak/realm.js';
import { RealmSetup } from './identity-management/adapters/out/keycloak/realm-setup.js';
import { PermissionDenied, TokenRefused } from './identity-management/adapters/out/provider-api/api-failure.js';

const USAGE = 'npm run --silent keycloak:setup -- [--administrator <email>] [--dry-run]';
const HELP = `${USAGE}

Makes what the service needs in a realm of Keycloak's (KEYCLOAK_URL, KEYCLOAK_REALM), and the realm where there is none.
What is there already stays; done again it changes nothing. Prints the environment for the service, with its secret; what
it changes on standard error: "+" is made, "~" altered, "=" as it should be.

  --administrator  the user who gets the role with all permissions; one that isn't there is made, with a password
                   that is shown once and changed at the first login
  --dry-run        shows what would be changed, and changes nothing
  --help           this text

Keycloak's administrator comes from KEYCLOAK_ADMIN_USERNAME and KEYCLOAK_ADMIN_PASSWORD, or is asked for on a terminal.
Exit code: 0 done, 1 something couldn't be done, 2 wrong usage.
`;
const CREDENTIALS = 'credentials come from KEYCLOAK_ADMIN_USERNAME and KEYCLOAK_ADMIN_PASSWORD';

interface SetupArguments {
  readonly administrator: string | undefined;
  readonly dryRun: boolean;
  readonly help: boolean;
}

function given(): SetupArguments {
  const { administrator, 'dry-run': dryRun, help } = parsed();
  if (administrator !== undefined && !isEmail(administrator)) throw new Error('--administrator is an e-mail');
  return { administrator: administrator?.toLowerCase(), dryRun, help };
}

function parsed() {
  try {
    return parseArgs({
      options: {
        administrator: { type: 'string' },
        'dry-run': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    }).values;
  } catch (error) {
    // What it says has the argument in it, which may be a password.
    throw new Error(`There is an unknown argument; ${CREDENTIALS}`, { cause: error });
  }
}

async function credentials({ username, password }: KeycloakSetupEnvironment): Promise<{ username: string; password: string }> {
  if ((username === undefined || password === undefined) && !isTerminal()) {
    throw new CommandError(`There is no terminal to ask on, so ${CREDENTIALS}, which must be set.`);
  }
  return {
    username: username ?? (await ask("Keycloak's administrator: ")),
    password: password ?? (await ask('Password: ', { secret: true })),
  };
}

const tell = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

/** @returns the exit code. */
async function main(): Promise<number> {
  const { administrator, dryRun, help } = commandArguments(USAGE, given);
  if (help) {
    process.stdout.write(HELP);
    return 0;
  }
  const environment = loadKeycloakSetupEnvironment();
  const { url, realm, clientId, oidc, baseUrl } = environment;
  const connection = { url, realm, clientId, audience: oidc.audience, publicUrl: baseUrl };
  const setup = new RealmSetup({ ...connection, credentials: await credentials(environment) });
  try {
    const count = await change(setup, administrator, dryRun);
    for (const right of await setup.needlessRights()) tell(`! client ${clientId} does not need the right ${right}`);
    if (count === 0) tell('Nothing to change.');
    else tell(dryRun ? `Would change ${count}; nothing is changed.` : `Changed ${count}.`);
    if (!dryRun) process.stdout.write(toDotEnv(await serviceVariables(setup, environment)));
    return 0;
  } catch (error) {
    throw explained(error, environment);
  } finally {
    await setup.close();
  }
}

/** @returns how many changes were made, or would be. */
async function change(setup: RealmSetup, email: string | undefined, dryRun: boolean): Promise<number> {
  // Of all kinds of characters that a password policy may ask for.
  const administrator = email === undefined ? undefined : { email, password: `Aa1-${randomBytes(15).toString('base64url')}` };
  let count = 0;
  for (const part of setup.parts(administrator)) {
    const changes = await part.changes();
    if (changes.length === 0) tell(`= ${part.name}`);
    for (const { line, make, note } of changes) {
      if (!dryRun) await make();
      tell(line);
      if (!dryRun && note !== undefined) tell(note);
      count++;
    }
  }
  return count;
}

/** What the service is started with. */
async function serviceVariables(setup: RealmSetup, environment: KeycloakSetupEnvironment): Promise<Record<string, string>> {
  const { url, realm, clientId, oidc, basePath, publicUrl } = environment;
  const named = await setup.issuer();
  const issuer = oidc.issuer ?? (named === realmUrl({ url, realm }) ? undefined : named);
  return {
    IDENTITY_PROVIDER: 'keycloak',
    KEYCLOAK_URL: url,
    KEYCLOAK_REALM: realm,
    KEYCLOAK_CLIENT_ID: clientId,
    KEYCLOAK_CLIENT_SECRET: await setup.clientSecret(),
    ...(issuer !== undefined && { OIDC_ISSUER: issuer }),
    OIDC_AUDIENCE: oidc.audience,
    SWAGGER_UI_CLIENT_ID,
    ...(basePath !== '' && { BASE_PATH: basePath }),
    ...(publicUrl !== undefined && { PUBLIC_URL: publicUrl }),
  };
}

function explained(error: unknown, { url }: KeycloakSetupEnvironment): unknown {
  if (error instanceof PermissionDenied) return new CommandError(`The administrator's rights don't suffice: ${error.message}`, { cause: error });
  if (!(error instanceof TokenRefused)) return error;
  const refusal = error.error === 'invalid_grant' ? `Keycloak does not accept the administrator: ${error.description}.` : `There is no Keycloak at ${url}.`;
  return new CommandError(refusal, { cause: error });
}

await runCommand(main, 1, 2);
