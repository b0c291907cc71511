import { ownCommand } from '../../common/own-command.js';
import { publicPath } from '../../configuration/served-address.js';
import type { Environment } from '../../configuration/service.js';
import { pagePath } from './pages.js';

const TOKENS: Readonly<Record<Environment['identityProvider']['adapter'], (page: (name: string) => string) => string>> = {
  embedded: () =>
    `Choose **Authorize** and enter the client id \`admin\` and its secret, from \`DATA_DIR/identity/admin-secret\` (or \`EMBEDDED_ADMIN_SECRET\`). At a terminal, \`${ownCommand('token')}\` prints a token.`,
  keycloak: (page) => `Choose **Authorize** and log in, or enter a client of the realm and its secret ([roles and users on Keycloak](${page('docs/keycloak.md')})).`,
  auth0: (page) => `Choose **Authorize** and log in, or request a token from the tenant and enter it ([roles and users on Auth0](${page('docs/auth0.md')})).`,
  module: () => 'Get one from your identity provider, choose **Authorize**, and enter it.',
};

/** The description of the API at the top of the OpenAPI document, in Markdown. */
export function apiDescription(environment: Environment): string {
  const { identityProvider, ingestionAuthorization, maxUploadBytes, rateLimitPerMinute } = environment;
  const path = publicPath(environment);
  const page = (name: string): string => pagePath(path, name);
  const uploads =
    ingestionAuthorization === 'open'
      ? 'Uploads need no token here.'
      : 'Uploads need a token with `upload:historical` or `upload:nowcast`, whose `customer_id` claim covers the customer.';
  const limits = [
    `A file has at most ${maxUploadBytes.toLocaleString('en')} bytes.`,
    ...(rateLimitPerMinute > 0 ? [`${rateLimitPerMinute.toLocaleString('en')} requests a minute are accepted from one address, and with one token.`] : []),
  ];
  return `Receives historical and nowcast load data, and manages the roles and users of the people who work with it.

1. **Upload a file**: [uploadHistorical](#/Historical%20ingestion/uploadHistorical), [uploadNowcast](#/Nowcast%20ingestion/uploadNowcast). ${uploads}
2. **Get a token** for everything else. ${TOKENS[identityProvider.adapter](page)}
3. **Make a role and a user**: [createRole](#/Identity%20management/createRole), [createUser](#/Identity%20management/createUser) with the role's id; then [listRoles](#/Identity%20management/listRoles) and [listUsers](#/Identity%20management/listUsers).
4. **Find, fetch or remove uploads**: [listUploads](#/Stored%20uploads/listUploads).

Every error is \`{"error": "<text>"}\`, and every answer has an \`X-Request-Id\`, which the log has too. ${limits.join(' ')}

Pages, as text: [a first session](${page('README.md')}) · [errors and their cures](${page('docs/troubleshooting.md')}) · [clients, generated or ready-made](${page('docs/clients.md')}) · [stored uploads](${page('docs/managing-uploads.md')}) · [all pages](${page('docs/README.md')})

This service: [this description as JSON](${path}/docs-json), for client generators (\`?uploads=form\`, \`bytes\` or \`json\` for those that know one body per operation) · [readiness](${path}/health/ready) · [metrics](${path}/metrics)`;
}
