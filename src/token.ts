import { parseArgs } from 'node:util';
import { isLocked } from './data-directory/data-directory-lock.js';
import { baseUrl, type Environment, EnvironmentError, loadEnvironment } from './environment.js';
import { EmbeddedIdentityProvider } from './identity-management/adapters/out/embedded/embedded.identity-provider.adapter.js';
import { loadSigningKeys } from './identity-management/adapters/out/embedded/signing-keys.js';
import { TokenIssuer } from './identity-management/adapters/out/embedded/token-issuer.js';
import { UserNotFound } from './identity-management/domain/errors.js';

/** A reason to end without a token, in words for the one who asked. */
class Refusal extends Error {}

interface TokenArguments {
  readonly user?: string | undefined;
  readonly customer: readonly string[];
}

function tokenArguments(): TokenArguments {
  try {
    const { values } = parseArgs({
      options: { user: { type: 'string' }, customer: { type: 'string', multiple: true, default: [] } },
    });
    if (values.customer.includes('')) throw new Error('--customer is empty');
    return values;
  } catch (error) {
    const [problem] = (error as Error).message.split('\n');
    throw new Refusal(`${problem ?? ''} (usage: npm run token -- [--user <user_id>] [--customer <id>]...)`);
  }
}

/** Opens the provider beside a service that may be running, and makes what is missing. */
async function accessToken(environment: Environment, { user, customer }: TokenArguments): Promise<string> {
  const provider = await EmbeddedIdentityProvider.open(environment.dataDirectory, { shared: true });
  try {
    const recorded = isLocked(environment.dataDirectory, 'identity') ? await provider.recordedIssuer() : undefined;
    const issuer = recorded ?? environment.oidc.issuer ?? `${baseUrl(environment, environment.port)}/idp`;
    const issuing = { issuer: () => issuer, audience: environment.oidc.audience };
    const keys = await loadSigningKeys(environment.dataDirectory);
    const tokens = new TokenIssuer(keys, (userId) => provider.permissionsOf(userId), issuing);
    return await (user === undefined ? tokens.administratorToken(customer) : tokens.userToken(user, customer));
  } catch (error) {
    if (error instanceof UserNotFound) throw new Refusal(`There is no user ${JSON.stringify(user)}.`);
    throw error;
  } finally {
    provider.close();
  }
}

try {
  const given = tokenArguments();
  const environment = loadEnvironment();
  if (environment.identityProvider.adapter !== 'embedded') {
    throw new Refusal('Only the embedded identity provider issues tokens here (IDENTITY_PROVIDER).');
  }
  process.stdout.write(`${await accessToken(environment, given)}\n`);
} catch (error) {
  const lines = error instanceof EnvironmentError ? error.problems : [oneLine(error)];
  process.stderr.write(lines.map((line) => `${line}\n`).join(''));
  process.exitCode = 1;
}

function oneLine(error: unknown): string {
  const { message, cause } = error as Error;
  return (cause instanceof Error ? `${message} (${cause.message})` : message).replaceAll(/\s+/g, ' ');
}
