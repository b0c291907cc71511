import type { IncomingMessage } from 'node:http';
import { Injectable } from '@nestjs/common';
import type { Express, RequestHandler } from 'express';
import { targetPath } from './request-head.js';

const SERVICE_ROUTE = 'http:service-route';

/** Marks a handler of Express as part of an operation of the service. */
export const markServiceRoute = (handler: object): void => {
  Reflect.defineMetadata(SERVICE_ROUTE, true, handler);
};

/** Marks all methods of a controller as operations of the service. */
export const markServiceRoutes: ClassDecorator = ({ prototype }) => {
  const members = prototype as Readonly<Record<string, unknown>>;
  for (const name of Object.getOwnPropertyNames(members)) {
    const method = members[name];
    if (typeof method === 'function') markServiceRoute(method);
  }
};

/** A middleware or route in Express's router. `match` compares only the path, not the method. */
export interface ExpressLayer {
  handle: RequestHandler;
  readonly route?: { readonly methods: Readonly<Record<string, boolean>>; readonly stack: readonly { readonly handle: object }[] };
  match(path: string): boolean;
}

/** The middleware and routes of Express in order. */
export const layersOf = (express: Express): readonly ExpressLayer[] => express.router.stack as unknown as ExpressLayer[];

/** Knows which routes of an application are the service's, and which are not. */
@Injectable()
export class RouteTable {
  private serviceRoutes: readonly ExpressLayer[] = [];
  private otherRoutes: readonly ExpressLayer[] = [];

  /** Must be called once, after Nest has registered all routes. */
  read(express: Express): void {
    const routes = layersOf(express).filter(({ route }) => route !== undefined);
    this.serviceRoutes = routes.filter(isServiceRoute);
    this.otherRoutes = routes.filter((layer) => !isServiceRoute(layer));
  }

  isService(request: IncomingMessage): boolean {
    return matches(this.serviceRoutes, request);
  }

  /** Whether the request is for a route that isn't the service's. False for an unknown path. */
  isOther(request: IncomingMessage): boolean {
    return !this.isService(request) && matches(this.otherRoutes, request);
  }
}

/** Whether a route has the service's mark, which Nest copies from a controller's method to its handler in Express. */
const isServiceRoute = ({ route }: ExpressLayer): boolean =>
  route?.stack.some(({ handle }) => Reflect.hasMetadata(SERVICE_ROUTE, handle)) === true;

function matches(routes: readonly ExpressLayer[], request: IncomingMessage): boolean {
  const path = targetPath((request as { originalUrl?: string }).originalUrl ?? request.url ?? '');
  const method = request.method?.toLowerCase() ?? '';
  return routes.some((layer) => accepts(layer, method) && matchesPath(layer, path));
}

const accepts = ({ route }: ExpressLayer, method: string): boolean =>
  route !== undefined && (route.methods._all === true || route.methods[method] === true || (method === 'head' && route.methods.get === true));

function matchesPath(layer: ExpressLayer, path: string): boolean {
  try {
    return layer.match(path);
  } catch {
    // The path matches, but has a parameter that can't be decoded.
    return true;
  }
}
