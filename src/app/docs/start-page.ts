import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Express, Request, Response, NextFunction } from 'express';
import { publicPath } from '../../configuration/served-address.js';
import type { Environment } from '../../configuration/service.js';
import { markServiceRoute } from '../../http/route-table.js';

const WANTS_HTML = /(?:^|,)\s*text\/html\s*(?:;|,|$)/i;

/**
 * Redirects a client whose `Accept` header names `text/html` from `{base_url}` to Swagger UI. Any other request goes on
 * to the following routes, and gets 404 if there is none.
 */
export function setUpStartPage(app: NestExpressApplication, environment: Environment): void {
  const { basePath } = environment;
  const location = `${publicPath(environment)}/docs`;
  const redirect = (request: Request, response: Response, next: NextFunction): void => {
    response.vary('Accept');
    if (!WANTS_HTML.test(request.headers.accept ?? '')) next();
    else response.writeHead(302, { Location: location, 'Content-Length': 0 }).end();
  };
  markServiceRoute(redirect);
  const express: Express = app.getHttpAdapter().getInstance();
  express.get([...new Set([`${basePath}/`, basePath || '/'])], redirect);
}
