import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { CommandError, commandArguments, runCommand } from './command.js';
import { isLocked } from '../common/data-directory/data-directory-lock.js';
import { fileIdentity } from '../common/data-directory/file-identity.js';
import { assertDirectory } from '../common/data-directory/make-directories.js';
import { baseUrl } from '../configuration/served-address.js';
import { type Environment, loadEnvironment } from '../configuration/service.js';
import { EmbeddedIdentityProvider } from '../identity-management/adapters/out/embedded/embedded.identity-provider.adapter.js';
import { loadSigningKeys } from '../identity-management/adapters/out/embedded/signing-keys.js';
import { TokenIssuer } from '../identity-management/adapters/out/embedded/token-issuer.js';
import { UserNotFound } from '../identity-management/domain/errors.js';

const HELP = `load-data-service token [--user <user_id>] [--customer <id>]...

Prints an access token of the embedded identity provider, which is valid for one hour: the administrator's, or a user's
with the current permissions of their roles. Works whether the service runs or not.

  --user      the user's id, such as embedded|0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10
  --customer  a customer for whom the token may upload; may be repeated
  --help      this text

Examples:
  npx load-data-service token --customer acme-energy
  npm run --silent token -- --customer acme-energy     (in a clone)

Exit code: 0 printed, 1 there is no such user, wrong usage, or something else is wrong.
`;
const OPTIONS = { user: { type: 'string' }, customer: { type: 'string', multiple: true, default: [] as string[] } } as const;

/** The maximum length of a token, in characters. All headers of a request together must fit into 16 KiB. */
const MAX_LENGTH = 15_000;

interface TokenArguments {
  readonly user?: string | undefined;
  readonly customer: readonly string[];
}

/**
 * Issues an access token. Doesn't create an identity provider in a DATA_DIR that is missing, or that has other files:
 * no service would accept its tokens.
 */
async function accessToken(environment: Environment, { user, customer }: TokenArguments): Promise<string> {
  assertIdentityExists(environment.dataDirectory);
  const provider = await EmbeddedIdentityProvider.open(environment.dataDirectory, { shared: true });
  try {
    const isServiceRunning = isLocked(environment.dataDirectory, 'identity');
    const recorded = isServiceRunning ? await provider.recordedClaims() : {};
    const issuer = recorded.issuer ?? environment.oidc.issuer ?? `${baseUrl(environment, environment.port)}/idp`;
    const issuing = { issuer: () => issuer, audience: recorded.audience ?? environment.oidc.audience };
    const keys = await loadSigningKeys(environment.dataDirectory, { create: !isServiceRunning });
    const tokens = new TokenIssuer(() => Promise.resolve(keys), (userId) => provider.permissionsOf(userId), issuing);
    const token = await (user === undefined ? tokens.administratorToken(customer) : tokens.userToken(user, customer));
    if (token.length > MAX_LENGTH) {
      throw new CommandError(`The token would have ${token.length} characters, more than the ${MAX_LENGTH} that fit into the headers of a request. Give fewer customers, or the user roles with fewer permissions.`);
    }
    return token;
  } catch (error) {
    if (error instanceof UserNotFound) throw new CommandError(`There is no user ${JSON.stringify(user)}.`, { cause: error });
    throw error;
  } finally {
    await provider.close();
  }
}

function assertIdentityExists(dataDirectory: string): void {
  const path = resolve(dataDirectory, 'identity');
  if (fileIdentity(path) || isLocked(dataDirectory, 'identity')) return;
  if (fileIdentity(dataDirectory)) assertDirectory(dataDirectory);
  // An empty DATA_DIR counts as that of a service that hasn't started yet, so its identity provider may be created now.
  if (fileIdentity(dataDirectory) && readdirSync(dataDirectory).length === 0) return;
  throw new CommandError(`There is no ${path}: set DATA_DIR to that of the service, or start the service once.`);
}

async function main(): Promise<number> {
  const given = commandArguments({ help: HELP, options: OPTIONS }, (values) => {
    if (values.customer.includes('')) throw new Error('--customer must not be empty');
    return values;
  });
  if (!given) return 0;
  const environment = loadEnvironment();
  if (environment.identityProvider.adapter !== 'embedded') {
    throw new CommandError('Only the embedded identity provider issues tokens here (IDENTITY_PROVIDER); docs/keycloak.md and docs/auth0.md say how to get others.');
  }
  process.stdout.write(`${await accessToken(environment, given)}\n`);
  return 0;
}

await runCommand(main, 1);
