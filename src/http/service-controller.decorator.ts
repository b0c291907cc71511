import { applyDecorators, Controller, UseFilters, VERSION_NEUTRAL } from '@nestjs/common';
import { markServiceRoutes } from './route-table.js';
import { ServiceExceptionFilter } from './service-exception.filter.js';

/**
 * A controller with operations of the service. Its errors have the interface's form, also in an application whose own
 * filters answer otherwise, and its paths don't change with the application's versions. Decorators above this one, such
 * as `@UseFilters`, take precedence.
 */
export const ServiceController = (path: string): ClassDecorator =>
  applyDecorators(markServiceRoutes, UseFilters(new ServiceExceptionFilter()), Controller({ path, version: VERSION_NEUTRAL }));
