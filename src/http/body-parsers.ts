import type { IncomingMessage } from 'node:http';
import type { Express, RequestHandler } from 'express';
import { type ExpressLayer, layersOf } from './route-table.js';

/**
 * The names of the functions that parse bodies in body-parser (which Express and Nest use) and multer. A parser is
 * recognized by the name of its function, as Nest does it too.
 */
const BODY_PARSERS: ReadonlySet<string> = new Set(['jsonParser', 'urlencodedParser', 'textParser', 'rawParser', 'multerMiddleware']);

/**
 * Makes the body parsers that an application has registered for all routes skip the requests for which `isFor` is
 * false. The bodies of these requests stay unread, so that the service can read them itself.
 */
export function limitBodyParsers(express: Express, isFor: (request: IncomingMessage) => boolean): void {
  for (const layer of layersOf(express).filter(isBodyParser)) {
    const { handle } = layer;
    const limited: RequestHandler = (request, response, next) => {
      if (isFor(request)) return handle(request, response, next);
      next();
    };
    // The limited parser keeps the name of the original one: Nest registers its own parser unless it finds one of that
    // name.
    layer.handle = Object.defineProperty(limited, 'name', { value: handle.name });
  }
}

const isBodyParser = ({ route, handle }: ExpressLayer): boolean => route === undefined && BODY_PARSERS.has(handle.name);
