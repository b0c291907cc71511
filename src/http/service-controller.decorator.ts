import { applyDecorators, Controller, UseFilters, VERSION_NEUTRAL } from '@nestjs/common';
import { markServiceRoutes } from './route-table.js';
import { ServiceExceptionFilter } from './service-exception.filter.js';

/**
 * Declares a controller with operations of the service. Its errors have the interface's form, even in an application
 * whose own filters answer otherwise. Its paths stay the same in an application that uses versions of its API.
 * Decorators above this one, such as `@UseFilters`, take precedence.
 */
export const ServiceController = (path: string): ClassDecorator =>
  applyDecorators(markServiceRoutes, UseFilters(new ServiceExceptionFilter()), Controller({ path, version: VERSION_NEUTRAL }));
