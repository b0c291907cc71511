import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { baseUrl } from '../configuration/served-address.js';
import type { Environment } from '../configuration/service.js';
import { ServiceAddress } from '../operations/service-address.js';
import { setUpStartPage } from './docs/start-page.js';
import { setUpSwaggerUi } from './docs/swagger-ui.js';

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE'];
const EXPOSED_HEADERS = ['X-Request-Id', 'X-Upload-Id', 'X-Upload-Digest', 'Idempotent-Replayed', 'Retry-After', 'Content-Disposition', 'Accept-Ranges', 'Content-Range', 'ETag', 'Repr-Digest'];

/**
 * An idle connection is kept longer than load balancers usually keep one (60 s). Otherwise a load balancer could send a
 * request on a connection that the service is closing.
 */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;

/** Configures the Nest app from the environment. Must be called before `init` or `listen`. */
export function setUpApp(app: NestExpressApplication, environment: Environment): void {
  const { basePath, corsOrigins, trustProxy, requestTimeoutMs, requestIdleTimeoutMs } = environment;
  app.set('trust proxy', trustProxy);
  if (corsOrigins.length > 0) {
    const options = { origin: corsOrigins.includes('*') ? '*' : [...corsOrigins], methods: METHODS, exposedHeaders: EXPOSED_HEADERS };
    // Only a preflight is answered here. Any other OPTIONS gets 404, as without CORS.
    app.enableCors(({ headers }: IncomingMessage, done) => {
      done(null, { ...options, preflightContinue: headers['access-control-request-method'] === undefined });
    });
  }
  app.setGlobalPrefix(basePath);

  const server: Server = app.getHttpServer();
  Object.assign(server, {
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    requestTimeout: requestTimeoutMs,
    headersTimeout: Math.min(requestIdleTimeoutMs, requestTimeoutMs),
    connectionsCheckingInterval: Math.min(5_000, requestIdleTimeoutMs),
  });

  server.on('listening', () => {
    const { port } = server.address() as AddressInfo;
    app.get(ServiceAddress).announce(baseUrl(environment, port));
  });
  setUpStartPage(app, environment);
  setUpSwaggerUi(app, environment);
}
