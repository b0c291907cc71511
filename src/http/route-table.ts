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

/**
 * A middleware or route in Express's router, or one of the handlers of a route. `match` compares only the path, not the
 * method. `handleRequest` calls `handle`, and passes what that throws, or rejects with, to `next`. It is optional here,
 * because Express doesn't document it: without it, no route is called directly.
 */
export interface ExpressLayer {
  handle: RequestHandler;
  readonly route?: ExpressRoute;
  match(path: string): boolean;
  handleRequest?(request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void): void;
}

export interface ExpressRoute {
  readonly path: unknown;
  readonly methods: Readonly<Record<string, boolean>>;
  readonly stack: readonly ExpressLayer[];
}

/** The middleware and routes of Express in order. */
export const layersOf = (express: Express): ExpressLayer[] => express.router.stack as unknown as ExpressLayer[];

/**
 * A path without parameters, wildcards and optional parts, which therefore matches only itself. It's short enough that
 * no longer path is cut to it (`Exchange.path`).
 */
const LITERAL_PATH = /^[\w/.~-]{1,255}$/;

/** Knows which routes of an application are the service's, and which are not. */
@Injectable()
export class RouteTable {
  /**
   * The service's routes by method and path, such as `GET /roles`, for which Express's router would call the route's only
   * handler and nothing else of the application. So this handler can be called without the router (ADR 25).
   */
  readonly direct = new Map<string, ExpressRoute>();
  private serviceRoutes: readonly ExpressLayer[] = [];
  private otherRoutes: readonly ExpressLayer[] = [];

  /** Must be called once, after Nest has registered all routes. */
  read(express: Express): void {
    const layers = layersOf(express);
    const routes = layers.filter(({ route }) => route !== undefined);
    this.serviceRoutes = routes.filter(isServiceRoute);
    this.otherRoutes = routes.filter((layer) => !isServiceRoute(layer));
    for (const layer of this.serviceRoutes) this.addDirect(layer, layers);
  }

  isService(request: IncomingMessage): boolean {
    return matches(this.serviceRoutes, request);
  }

  /** Whether the request is for a route that isn't the service's. False for an unknown path. */
  isOther(request: IncomingMessage): boolean {
    return !this.isService(request) && matches(this.otherRoutes, request);
  }

  private addDirect(layer: ExpressLayer, layers: readonly ExpressLayer[]): void {
    const { route } = layer;
    if (typeof route?.path !== 'string' || !LITERAL_PATH.test(route.path) || route.stack.length !== 1 || !route.stack[0]?.handleRequest) return;
    const { path, methods } = route;
    for (const method of Object.keys(methods)) {
      const first = layers.find((each) => (each.route === undefined || accepts(each, method)) && matchesPath(each, path));
      if (first === layer) this.direct.set(`${method.toUpperCase()} ${path}`, route);
    }
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
