import { readFileSync } from 'node:fs';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { SwaggerModule } from '@nestjs/swagger';
import type { Express, NextFunction, Request, Response } from 'express';
import helmet from 'helmet';
import { type AuthorizationServer, authorizationServerFor } from './authorization-server.js';
import { publicPath } from '../../configuration/served-address.js';
import type { Environment } from '../../configuration/service.js';
import { breakIfUnread } from '../../http/exchange.js';
import { createOpenApiDocument } from './openapi.js';
import { withOneUploadBody } from './one-upload-body.js';
import { setUpPages } from './pages.js';
import { ServiceAddress } from '../../operations/service-address.js';

/** Reads a file of the folder `page`, which the Nest CLI copies to the build. */
const pageFile = (name: string): string => readFileSync(new URL(`./page/${name}`, import.meta.url), 'utf8');

const SCRIPT = 'docs/load-data.js';
const REDIRECT_PAGE = 'docs/oauth2-redirect.html';

const self = ["'self'"];
const none = ["'none'"];

/** The policy of Swagger UI omits `upgrade-insecure-requests`, which would break plain HTTP. */
const contentSecurityPolicy = ({ tokenUrl }: AuthorizationServer) => ({
  useDefaults: false,
  directives: {
    defaultSrc: none,
    scriptSrc: self,
    styleSrc: [...self, "'unsafe-inline'"],
    imgSrc: [...self, 'data:'],
    fontSrc: self,
    connectSrc: URL.canParse(tokenUrl) ? [...self, new URL(tokenUrl).origin] : self,
    formAction: self,
    frameAncestors: none,
    baseUri: none,
  },
});

/** Serves Swagger UI, the pages and the OpenAPI document. Must be called after the app's global prefix was set. */
export function setUpSwaggerUi(app: NestExpressApplication, environment: Environment): void {
  const { basePath, requestIdleTimeoutMs } = environment;
  const server = authorizationServerFor(environment);
  const { login } = server;
  app.use([`${basePath}/docs`, `${basePath}/docs-json`], (_request: Request, response: Response, next: NextFunction) => {
    breakIfUnread(response, requestIdleTimeoutMs);
    next();
  });
  app.use(
    `${basePath}/docs`,
    helmet({
      contentSecurityPolicy: contentSecurityPolicy(server),
      strictTransportSecurity: false,
      crossOriginOpenerPolicy: { policy: login ? 'same-origin-allow-popups' : 'same-origin' },
    }),
  );
  // A login opens the provider's pages in a popup, and then the redirect page in the same popup. The redirect page must
  // still reach the window that opened the popup, which a stricter `Cross-Origin-Opener-Policy` would prevent.
  if (login) app.use(`${basePath}/${REDIRECT_PAGE}`, helmet.crossOriginOpenerPolicy({ policy: 'unsafe-none' }));

  setUpPages(app, environment);
  const script = pageFile('swagger-ui.js');
  const express: Express = app.getHttpAdapter().getInstance();
  express.get(`${basePath}/${SCRIPT}`, (_request: Request, response: Response) => {
    response.type('text/javascript').send(script);
  });

  SwaggerModule.setup('docs', app, createOpenApiDocument(app, environment, server), {
    jsonDocumentUrl: 'docs-json',
    raw: ['json'],
    useGlobalPrefix: true,
    patchDocumentOnRequest: (request, _response, document) => withOneUploadBody(document, (request as Request).query.uploads),
    customSiteTitle: 'Load-data service',
    customCss: pageFile('swagger-ui.css'),
    customJs: `${publicPath(environment)}/${SCRIPT}`,
    swaggerOptions: {
      validatorUrl: null,
      defaultModelsExpandDepth: 0,
      initOAuth: {
        clientId: login?.clientId ?? 'admin',
        usePkceWithAuthorizationCodeGrant: login !== undefined,
        additionalQueryStringParams: login?.additionalQueryStringParams,
      },
      // `oauth2RedirectUrl` is a getter, because the port may be known only once the service listens.
      get oauth2RedirectUrl() {
        return login && `${app.get(ServiceAddress).baseUrl}/${REDIRECT_PAGE}`;
      },
    },
  });
}
