import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Environment } from './environment.js';
import { realmUrl } from './identity-management/adapters/out/keycloak/keycloak-connection.js';

const TOKEN_DESCRIPTION = 'An access token, for example what `npm run token -- --user <user_id>` prints.';

const AUTH0_CLIENT_DESCRIPTION = [
  "A machine-to-machine application of the tenant's, which has the permissions.",
  'Auth0 wants the API in the request for a token (`audience`), which Swagger UI does not send: this works where the API is the "Default Audience" of the tenant.',
  'Otherwise request a token yourself, and give it under `token`.',
].join(' ');

type Operations = Record<string, { responses: Record<string, unknown>; security?: unknown }>;

/** What the scheme `client` is with the identity provider that the environment chose. */
function clientCredentials({ identityProvider }: Environment, publicPath: string) {
  const [description, tokenUrl] = tokenEndpoint(identityProvider, publicPath);
  return { description, flows: { clientCredentials: { tokenUrl, scopes: {} } } };
}

function tokenEndpoint(provider: Environment['identityProvider'], publicPath: string): [description: string, url: string] {
  switch (provider.adapter) {
    case 'embedded':
      return ['The administrator: client id `admin`, and the secret that stands in `DATA_DIR/identity/admin-secret`.', `${publicPath}/idp/token`];
    case 'keycloak':
      return ["A client of the realm's, whose service account has the permissions.", `${realmUrl(provider)}/protocol/openid-connect/token`];
    case 'auth0':
      return [AUTH0_CLIENT_DESCRIPTION, `${provider.url}/oauth/token`];
  }
}

/** OpenAPI 3 from the code, with those answers left out that this configuration never gives. */
export function createOpenApiDocument(app: INestApplication, environment: Environment): OpenAPIObject {
  const { rateLimitPerMinute, ingestionAuthorization } = environment;
  // A proxy in front may have a path of its own.
  const publicPath = environment.publicUrl === undefined ? environment.basePath : new URL(environment.publicUrl).pathname.replace(/\/$/, '');
  const config = new DocumentBuilder()
    .setTitle('Load-data service')
    .setDescription('Historical and nowcast load data comes in here; the people behind it get their roles here.')
    .setVersion('1')
    .addServer(publicPath || '/')
    .addOAuth2({ type: 'oauth2', ...clientCredentials(environment, publicPath) }, 'client')
    .addBearerAuth({ type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: TOKEN_DESCRIPTION }, 'token')
    .build();
  const document = SwaggerModule.createDocument(app, config, { ignoreGlobalPrefix: true });

  for (const [path, operations] of Object.entries(document.paths)) {
    for (const operation of Object.values(operations as Operations)) {
      if (rateLimitPerMinute === 0) delete operation.responses['429'];
      if (path.startsWith('/ingest') && ingestionAuthorization === 'open') {
        delete operation.responses['403'];
        delete operation.responses['503'];
        delete operation.security;
      }
    }
  }
  return document;
}
