import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ArgumentsHost, Catch, type ExceptionFilter, Logger } from '@nestjs/common';
import { exchangeOf, sendErrorJson } from '../../../../../http/exchange.js';
import { OAuthError } from './oauth-error.js';

/** Answers an `OAuthError` in the form of RFC 6749, section 5.2. */
@Catch(OAuthError)
export class OAuthErrorFilter implements ExceptionFilter<OAuthError> {
  private readonly logger = new Logger('EmbeddedIssuer');

  catch(error: OAuthError, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<IncomingMessage>();
    const response = host.switchToHttp().getResponse<ServerResponse>();
    if (error.status >= 500) {
      this.logger.error({ msg: error.message, requestId: exchangeOf(request)?.requestId, err: error });
    }
    response.setHeader('Cache-Control', 'no-store').setHeader('Pragma', 'no-cache');
    if (error.code === 'invalid_client' && !isScripted(request)) {
      response.setHeader('WWW-Authenticate', 'Basic realm="load-data"');
    }
    sendErrorJson(request, response, error.status, JSON.stringify({ error: error.code, error_description: error.message }));
  }
}

/** A script gets no `WWW-Authenticate` header: the browser would show its own login dialog instead of the answer. */
const isScripted = ({ headers }: IncomingMessage): boolean =>
  headers['x-requested-with']?.toString().toLowerCase() === 'xmlhttprequest';
