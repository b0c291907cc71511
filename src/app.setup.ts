import type { NestExpressApplication } from '@nestjs/platform-express';
import { SwaggerModule } from '@nestjs/swagger';
import helmet from 'helmet';
import type { Environment } from './environment.js';
import { createOpenApiDocument } from './openapi.js';

const self = ["'self'"];
const none = ["'none'"];

/** What Swagger UI needs and no more; without `upgrade-insecure-requests`, which would break it over plain HTTP. */
const CONTENT_SECURITY_POLICY = {
  useDefaults: false,
  directives: {
    defaultSrc: none,
    scriptSrc: self,
    styleSrc: [...self, "'unsafe-inline'"],
    imgSrc: [...self, 'data:'],
    fontSrc: self,
    connectSrc: self,
    formAction: self,
    frameAncestors: none,
    baseUri: none,
  },
};

const EXPOSED_HEADERS = ['X-Request-Id', 'X-Upload-Id', 'X-Upload-Digest', 'Idempotent-Replayed', 'Retry-After'];

/** What the service and every end-to-end test apply alike. Before `init` or `listen`, and with `{ bodyParser: false }`. */
export function setUpApp(app: NestExpressApplication, environment: Environment): void {
  const { basePath, corsOrigins, trustProxy, requestTimeoutMs, requestIdleTimeoutMs } = environment;
  app.set('trust proxy', trustProxy);
  app.use(`${basePath}/docs`, helmet({ contentSecurityPolicy: CONTENT_SECURITY_POLICY, strictTransportSecurity: false }));
  if (corsOrigins.length > 0) {
    app.enableCors({ origin: corsOrigins.includes('*') ? '*' : [...corsOrigins], exposedHeaders: EXPOSED_HEADERS });
  }
  app.setGlobalPrefix(basePath);

  Object.assign(app.getHttpServer(), {
    requestTimeout: requestTimeoutMs,
    headersTimeout: Math.min(requestIdleTimeoutMs, requestTimeoutMs),
    connectionsCheckingInterval: Math.min(5_000, requestIdleTimeoutMs),
  });

  SwaggerModule.setup('docs', app, createOpenApiDocument(app, environment), {
    jsonDocumentUrl: 'docs-json',
    raw: ['json'],
    useGlobalPrefix: true,
    customSiteTitle: 'Load-data service',
    swaggerOptions: { validatorUrl: null, initOAuth: { clientId: 'admin' } },
  });
}
