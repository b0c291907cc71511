import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { AuthorizationServer } from './authorization-server.js';
import { publicPath } from '../../configuration/served-address.js';
import type { Environment } from '../../configuration/service.js';

/** Describes where to get an access token, for clients that don't use the `client` scheme. */
const TOKEN_DESCRIPTIONS: Readonly<Record<Environment['identityProvider']['adapter'], string>> = {
  embedded: 'An access token, for example what `npm run token -- --user <user_id>` prints.',
  keycloak: "An access token of the realm's.",
  module: "An access token of the identity provider's.",
  auth0: "An access token of the tenant's, requested with the API's identifier as `audience`.",
};

type Operations = Record<string, { responses: Record<string, unknown>; security?: unknown }>;

/** The OAuth 2 flows: a program gets a token with a secret, and, if login is offered, a person with a browser. */
function oauth2({ description, tokenUrl, login }: AuthorizationServer) {
  const clientCredentials = { tokenUrl, scopes: {} };
  const authorizationCode = login && { authorizationUrl: login.authorizationUrl, tokenUrl, scopes: {} };
  return { type: 'oauth2' as const, description, flows: { ...(authorizationCode && { authorizationCode }), clientCredentials } };
}

/** Generates the OpenAPI 3 document from the code, without answers that this configuration never gives. */
export function createOpenApiDocument(app: INestApplication, environment: Environment, server: AuthorizationServer): OpenAPIObject {
  const { identityProvider, rateLimitPerMinute, ingestionAuthorization, corsOrigins } = environment;
  const config = new DocumentBuilder()
    .setTitle('Load-data service')
    .setDescription('Historical and nowcast load data comes in here; the people behind it get their roles here.')
    .setVersion('1')
    .addServer(publicPath(environment) || '/')
    .addOAuth2(oauth2(server), 'client')
    .addBearerAuth({ type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: TOKEN_DESCRIPTIONS[identityProvider.adapter] }, 'token')
    .build();
  const document = SwaggerModule.createDocument(app, config, { ignoreGlobalPrefix: true });

  for (const [path, operations] of Object.entries(document.paths)) {
    for (const operation of Object.values(operations as Operations)) {
      if (rateLimitPerMinute === 0) delete operation.responses['429'];
      if (path.startsWith('/ingest') && ingestionAuthorization === 'open') {
        if (corsOrigins.includes('*')) delete operation.responses['403'];
        delete operation.responses['503'];
        delete operation.security;
      }
    }
  }
  return document;
}
