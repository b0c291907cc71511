import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ArgumentsHost, Catch, type ExceptionFilter } from '@nestjs/common';
import { answerError } from './answer.js';
import { toServiceError } from './to-service-error.js';

/** Converts everything thrown during a request into an error answer. */
@Catch()
export class ServiceExceptionFilter implements ExceptionFilter {
  catch(exception: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    answerError(http.getRequest<IncomingMessage>(), http.getResponse<ServerResponse>(), toServiceError(exception));
  }
}
