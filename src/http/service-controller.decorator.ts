import { applyDecorators, Controller, UseFilters, VERSION_NEUTRAL } from '@nestjs/common';
import { markServiceRoutes } from './route-table.js';
import { ServiceExceptionFilter } from './service-exception.filter.js';

/**
 * Declares a controller with operations of the service, whose paths begin with `path`. Its errors have the form of the
 * service interface, and its paths no version, whatever the application configures. Decorators above this one take
 * precedence.
 */
export const ServiceController = (path = ''): ClassDecorator =>
  applyDecorators(markServiceRoutes, UseFilters(new ServiceExceptionFilter()), Controller({ path, version: VERSION_NEUTRAL }));
