import type { IncomingMessage, ServerResponse } from 'node:http';
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
  readonly route?: ExpressRoute;
  match(path: string): boolean;
}

export interface ExpressRoute {
  readonly path: unknown;
  readonly methods: Readonly<Record<string, boolean>>;
  readonly stack: readonly (ExpressLayer & Partial<ExpressHandler>)[];
}

/** A handler of a route. `handleRequest` passes what `handle` throws, or rejects with, to `next`. */
interface ExpressHandler {
  handleRequest(request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void): void;
}

/** A route for whose requests Express would call `handler` and nothing else of the application. */
export interface DirectRoute {
  readonly route: ExpressRoute;
  readonly handler: ExpressHandler;
}

const PASSES_SERVICE_ROUTES = 'http:passes-service-routes';

/** Marks a middleware of Express that does nothing with the service's requests. */
export const markAsPassing = (middleware: object): void => {
  Reflect.defineMetadata(PASSES_SERVICE_ROUTES, true, middleware);
};

/** The middleware and routes of Express in order. */
export const layersOf = (express: Express): ExpressLayer[] => express.router.stack as unknown as ExpressLayer[];

/** A path that matches only itself. */
const LITERAL_PATH = /^[\w/.~-]+$/;

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

  /** The service's direct routes (ADR 25) by method and path, such as `GET /roles`. */
  directRoutes(express: Express): Map<string, DirectRoute> {
    const layers = layersOf(express).filter(({ handle }) => !Reflect.hasMetadata(PASSES_SERVICE_ROUTES, handle));
    const found = new Map<string, DirectRoute>();
    for (const layer of this.serviceRoutes) {
      const { route } = layer;
      const [handler, ...others] = route?.stack ?? [];
      if (typeof route?.path !== 'string' || !LITERAL_PATH.test(route.path) || !isHandler(handler) || others.length > 0) continue;
      const { path, methods } = route;
      for (const method of Object.keys(methods)) {
        const first = layers.find((each) => (each.route === undefined || accepts(each, method)) && matchesPath(each, path));
        if (first === layer) found.set(`${method.toUpperCase()} ${path}`, { route, handler });
      }
    }
    return found;
  }

  isService(request: IncomingMessage): boolean {
    return matches(this.serviceRoutes, request);
  }

  /** Whether the request is for a route that isn't the service's. False for an unknown path. */
  isOther(request: IncomingMessage): boolean {
    return !this.isService(request) && matches(this.otherRoutes, request);
  }
}

/** Express doesn't document `handleRequest`, so another version may not have it. */
const isHandler = (handler: Partial<ExpressHandler> | undefined): handler is ExpressHandler => typeof handler?.handleRequest === 'function';

/** Whether a route has the service's mark, which Nest copies from a controller's method to its handler in Express. */
const isServiceRoute = ({ route }: ExpressLayer): boolean =>
  route?.stack.some(({ handle }) => Reflect.hasMetadata(SERVICE_ROUTE, handle)) === true;

/**
 * The method and path of each of the service's operations, such as `GET` and `/uploads/:upload_id`, with its base path.
 * HEAD goes with GET.
 */
export const serviceRoutes = (express: Express): { readonly method: string; readonly path: string }[] =>
  layersOf(express).filter(isServiceRoute).flatMap(({ route }) => {
    const path = route?.path;
    if (typeof path !== 'string') return [];
    return Object.keys(route?.methods ?? {}).flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()])).map((method) => ({ method, path }));
  });

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
