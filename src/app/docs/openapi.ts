import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { SECURITY_SCHEMES } from '../../authentication/api-token.decorator.js';
import { ownCommand } from '../../common/own-command.js';
import { publicPath } from '../../configuration/served-address.js';
import type { Environment } from '../../configuration/service.js';
import type { AuthorizationServer } from './authorization-server.js';
import { apiDescription } from './description.js';

const TOKEN_DESCRIPTIONS: Readonly<Record<Environment['identityProvider']['adapter'], string>> = {
  embedded: `An access token, for example what \`${ownCommand('token', '--user', '<user_id>')}\` prints.`,
  keycloak: "An access token of the realm's.",
  module: "An access token of the identity provider's.",
  auth0: "An access token of the tenant's, requested with the API's identifier as `audience`.",
};

type Operations = Record<string, { responses: Record<string, unknown>; security?: unknown }>;

function oauth2({ description, tokenUrl, login }: AuthorizationServer) {
  const clientCredentials = { tokenUrl, scopes: {} };
  const authorizationCode = login && { authorizationUrl: login.authorizationUrl, tokenUrl, scopes: {} };
  return { type: 'oauth2' as const, description, flows: { ...(authorizationCode && { authorizationCode }), clientCredentials } };
}

/**
 * Generates the OpenAPI 3.1 document of the API. Removes some answers that can't occur with this configuration, such as
 * 429 without a rate limit. If uploads are open, the document requires no token for them.
 */
export function createOpenApiDocument(app: INestApplication, environment: Environment, server: AuthorizationServer): OpenAPIObject {
  const { identityProvider, rateLimitPerMinute, ingestionAuthorization, corsOrigins } = environment;
  const bearer = { type: 'http' as const, scheme: 'bearer', bearerFormat: 'JWT', description: TOKEN_DESCRIPTIONS[identityProvider.adapter] };
  const config = new DocumentBuilder()
    .setOpenAPIVersion('3.1.0')
    .setTitle('Load-data service')
    .setDescription(apiDescription(environment))
    .setVersion('1')
    .addServer(publicPath(environment) || '/')
    .addTag('Historical ingestion', 'Load data for training forecasting models')
    .addTag('Nowcast ingestion', 'Load data for generating forecasts')
    .addTag('Stored uploads', 'Finding, fetching and removing uploads')
    .addTag('Identity management', 'Roles and users')
    .addOAuth2(oauth2(server), SECURITY_SCHEMES.oauth2)
    .addBearerAuth(bearer, SECURITY_SCHEMES.bearer)
    .build();
  Object.assign(config.info, { contact: { name: 'The operators of this service' }, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } });
  const document = SwaggerModule.createDocument(app, config, { ignoreGlobalPrefix: true });

  for (const [path, operations] of Object.entries(document.paths)) {
    for (const operation of Object.values(operations as Operations)) {
      if (rateLimitPerMinute === 0) delete operation.responses['429'];
      if (path.startsWith('/ingest') && ingestionAuthorization === 'open') {
        if (corsOrigins.includes('*')) delete operation.responses['403'];
        delete operation.responses['503'];
        operation.security = [];
      }
    }
  }
  return document;
}
