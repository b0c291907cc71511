import type { IncomingMessage } from 'node:http';
import { Logger } from '@nestjs/common';
import { ServiceError } from '../common/service-error.js';
import { exchangeOf, LogEntry } from './exchange.js';

const logger = new Logger('Http');

const MESSAGE =
  'A middleware of the application has read the body of a request to load-data-service, so the request fails. ' +
  "Exclude the service's routes from that middleware (docs/beside-your-own-controllers.md#body-parsers).";

/** A middleware of the application has read the body of a request before the service could read it. */
export class BodyAlreadyReadError extends ServiceError {
  constructor() {
    super('internal', MESSAGE);
  }
}

/** Logs that a middleware of the application has read the body of a request, in one line without a stack. */
export function logBodyAlreadyRead(request: IncomingMessage): void {
  const exchange = exchangeOf(request);
  logger.error(new LogEntry({ msg: MESSAGE, event: 'body-already-read', method: request.method, path: exchange?.path, requestId: exchange?.requestId }));
}
