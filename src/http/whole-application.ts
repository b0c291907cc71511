import type { IncomingMessage } from 'node:http';
import { type ArgumentsHost, Catch, HttpException } from '@nestjs/common';
import { BaseExceptionFilter, HttpAdapterHost } from '@nestjs/core';
import { RouteTable } from './route-table.js';
import { ServiceExceptionFilter } from './service-exception.filter.js';

/** The injection token of a flag: whether the application is the service as a whole. */
export const WHOLE_APPLICATION = Symbol('http:whole-application');

/**
 * Answers every error in the form of the service interface, except an `HttpException` on a route that isn't the
 * service's, which is answered as in any Nest application.
 */
@Catch()
export class WholeApplicationFilter extends ServiceExceptionFilter {
  constructor(
    private readonly host: HttpAdapterHost,
    private readonly routes: RouteTable,
  ) {
    super();
  }

  override catch(exception: unknown, host: ArgumentsHost): void {
    const isForeign = exception instanceof HttpException && this.routes.isOther(host.switchToHttp().getRequest<IncomingMessage>());
    if (isForeign) new BaseExceptionFilter(this.host.httpAdapter).catch(exception, host);
    else super.catch(exception, host);
  }
}
